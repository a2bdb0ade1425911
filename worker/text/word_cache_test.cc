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

TEST(WordCache, TellsIndentationsApart) {
  WordCache& cache = WordCache::OfThread(WordCache::NewOwner());
  int encoded = 0;
  const auto encode = [&](std::string_view word, std::vector<int32_t>& ids) {
    ++encoded;
    ids.push_back(static_cast<int32_t>(word.size()));
  };
  const auto indented = [](size_t marks, const std::string& rest) {
    std::string word;
    for (size_t i = 0; i < marks; ++i) word += "▁";
    return word + rest;
  };
  for (const size_t marks : {0, 1, 2, 3, 20, 200}) {
    for (const char* rest : {"", "a", "ab"}) {
      const std::string word = indented(marks, rest);
      if (word.empty()) continue;
      for (int i = 0; i < 2; ++i) {
        std::vector<int32_t> ids;
        cache.Encode(word, ids, encode);
        EXPECT_THAT(ids, ElementsAre(static_cast<int32_t>(word.size())));
      }
    }
  }
  EXPECT_EQ(encoded, 17) << "some word was not in the cache the second time";
  for (const std::string& word : {indented(300, "a"), indented(20, std::string(WordCache::kMostBytes, 'x'))}) {
    std::vector<int32_t> ids;
    cache.Encode(word, ids, encode);
    cache.Encode(word, ids, encode);
  }
  EXPECT_EQ(encoded, 21) << "longer words are not kept";
}

}  // namespace
}  // namespace zerofleet::text
