// Words that are encoded once and found again, and two owners on one thread.
#include "worker/text/word_cache.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::text {
namespace {

using ::testing::ElementsAre;

// Encodes words by a cache, and counts those that are not in it.
class Encoding {
 public:
  // The ids of the word of `text` from `begin` to `end`: its number of bytes, `ids_per_word` times.
  std::vector<int32_t> Of(std::string_view text, size_t begin, size_t end) {
    std::vector<int32_t> ids;
    WordCache::OfThread(shared).Encode(text, begin, end, WordCache::OneByOne(end, [=](size_t) { return end; }), ids,
                                       [&](std::string_view word, std::vector<int32_t>& into) {
                                         ++encoded;
                                         into.insert(into.end(), ids_per_word, static_cast<int32_t>(word.size()));
                                       });
    return ids;
  }
  std::vector<int32_t> Of(std::string_view word) { return Of(word, 0, word.size()); }

  int encoded = 0;
  size_t ids_per_word = 1;
  SharedWords shared;
};

TEST(WordCache, RemembersAWordForItsOwner) {
  Encoding one, other;
  EXPECT_NE(one.shared.number(), other.shared.number());
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(one.Of("word"), ElementsAre(4));
    EXPECT_THAT(one.Of("wor"), ElementsAre(3));
  }
  EXPECT_THAT(one.Of("wore"), ElementsAre(4));
  EXPECT_EQ(one.encoded, 3);
  other.Of("word");
  EXPECT_EQ(other.encoded, 1);
  one.Of("word");
  EXPECT_EQ(one.encoded, 4);
}

TEST(WordCache, LeavesOutLongWordsAndThoseOfManyTokens) {
  Encoding cache;
  const std::string longest(WordCache::kMostBytes, 'x');
  cache.ids_per_word = WordCache::kMostIds;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(cache.Of(longest).size(), WordCache::kMostIds);
  EXPECT_EQ(cache.encoded, 1);
  for (int i = 0; i < 2; ++i) cache.Of(longest + "x");
  EXPECT_EQ(cache.encoded, 3);
  ++cache.ids_per_word;
  for (int i = 0; i < 2; ++i) cache.Of("w");
  EXPECT_EQ(cache.encoded, 5);
}

TEST(WordCache, KnowsAWordBetweenOthersAndAtTheEnd) {
  Encoding cache;
  const std::string text =
      std::string(WordCache::kMostBytes, 'a') + "bcdefghijklmnopqrstuvwxyz and more than a key has";
  for (size_t end = 1; end <= WordCache::kMostBytes; ++end) {
    EXPECT_THAT(cache.Of(text, 0, end), ElementsAre(static_cast<int32_t>(end)));
    EXPECT_THAT(cache.Of(std::string(end, 'a')), ElementsAre(static_cast<int32_t>(end)));
    EXPECT_EQ(cache.encoded, static_cast<int>(end));
  }
  EXPECT_THAT(cache.Of(std::string("a\0", 2)), ElementsAre(2));
  EXPECT_EQ(cache.encoded, WordCache::kMostBytes + 1) << "zeros behind a word were taken for its bytes";
}

TEST(WordCache, FindsWordsThatHaveLeftTheNearTable) {
  constexpr int kWords = 100'000;
  Encoding cache;
  const auto encode_all = [&] {
    const int before = cache.encoded;
    for (int i = 0; i < kWords; ++i) {
      const std::string word = "word" + std::to_string(i);
      if (cache.Of(word) != std::vector{static_cast<int32_t>(word.size())}) ADD_FAILURE() << word;
    }
    return cache.encoded - before;
  };
  EXPECT_EQ(encode_all(), kWords);
  encode_all();
  EXPECT_LT(encode_all(), kWords / 2);
}

TEST(WordCache, EncodesAllWordsInTheirOrder) {
  SharedWords shared;
  WordCache& cache = WordCache::OfThread(shared);
  std::string text;
  std::vector<int32_t> want;
  for (int i = 0; i < 1000; ++i) {
    text += std::to_string(i * i) + ' ';
    want.push_back(i * i);
  }
  std::vector<int32_t> ids;
  for (int i = 0; i < 2; ++i) {
    ids.clear();
    cache.Encode(
        text, 0, text.size(), WordCache::OneByOne(text.size(), [&](size_t at) { return text.find(' ', at) + 1; }), ids,
        [](std::string_view word, std::vector<int32_t>& into) { into.push_back(std::stoi(std::string(word))); });
    EXPECT_EQ(ids, want);
  }
}

TEST(WordCache, TellsIndentationsApart) {
  Encoding cache;
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
        EXPECT_THAT(cache.Of(word), ElementsAre(static_cast<int32_t>(word.size())));
      }
    }
  }
  EXPECT_EQ(cache.encoded, 17) << "some word was not in the cache the second time";
  for (const std::string& word : {indented(300, "a"), indented(20, std::string(WordCache::kMostBytes, 'x'))}) {
    for (int i = 0; i < 2; ++i) cache.Of(word);
  }
  EXPECT_EQ(cache.encoded, 21) << "longer words are not kept";
}

}  // namespace
}  // namespace zerofleet::text
