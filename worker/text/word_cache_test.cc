// Words stored and found, and two owners on one thread.
#include "worker/text/word_cache.h"

#include <array>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::text {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int32_t> Found(uint64_t owner, std::string_view word) {
  std::vector<int32_t> ids;
  return WordCache::OfThread(owner).Find(word, ids) ? ids : std::vector<int32_t>();
}

TEST(WordCache, RemembersAWordForItsOwner) {
  const uint64_t one = WordCache::NewOwner(), other = WordCache::NewOwner();
  EXPECT_NE(one, other);
  EXPECT_THAT(Found(one, "word"), IsEmpty());
  WordCache::OfThread(one).Put("word", std::array<int32_t, 2>{7, 9});
  EXPECT_THAT(Found(one, "word"), ElementsAre(7, 9));
  EXPECT_THAT(Found(one, "wore"), IsEmpty());
  EXPECT_THAT(Found(one, "wor"), IsEmpty());
  EXPECT_THAT(Found(other, "word"), IsEmpty());
}

TEST(WordCache, LeavesOutWordsOfManyTokens) {
  const uint64_t owner = WordCache::NewOwner();
  const std::vector<int32_t> ids(WordCache::kMostIds + 1, 3);
  WordCache::OfThread(owner).Put("w", ids);
  EXPECT_THAT(Found(owner, "w"), IsEmpty());
  const std::string longest(WordCache::kMostBytes, 'x');
  WordCache::OfThread(owner).Put(longest, std::span(ids).first(WordCache::kMostIds));
  EXPECT_EQ(Found(owner, longest).size(), WordCache::kMostIds);
}

}  // namespace
}  // namespace zerofleet::text
