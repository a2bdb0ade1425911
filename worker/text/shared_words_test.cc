// Words that threads write over each other's.
#include "worker/text/shared_words.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace zerofleet::text {
namespace {

WordKey KeyOf(uint64_t word) { return {word, word + 1, word + 2, word + 3}; }

CachedWord WordOf(uint64_t word) {
  CachedWord cached;
  cached.key = KeyOf(word);
  cached.key[3] |= uint64_t{CachedWord::kMostIds} << CachedWord::kCountShift;
  cached.ids.fill(static_cast<int32_t>(word));
  return cached;
}

TEST(SharedWords, FindsTheLastTwoWordsOfAHash) {
  SharedWords words;
  EXPECT_FALSE(words.made());
  words.Put(5, WordOf(1));  // before there is a table
  words.Make();
  words.Make();
  ASSERT_TRUE(words.made());
  CachedWord found;
  EXPECT_FALSE(words.Find(5, KeyOf(1), found));
  words.Put(5, WordOf(1));
  ASSERT_TRUE(words.Find(5, KeyOf(1), found));
  EXPECT_EQ(found.ids, WordOf(1).ids);
  EXPECT_EQ(found.count(), CachedWord::kMostIds);
  words.Put(5, WordOf(2));
  EXPECT_TRUE(words.Find(5, KeyOf(1), found));
  words.Put(5, WordOf(3));
  EXPECT_FALSE(words.Find(5, KeyOf(1), found));
  EXPECT_TRUE(words.Find(5, KeyOf(2), found));
  EXPECT_TRUE(words.Find(5, KeyOf(3), found));
  EXPECT_EQ(found.ids, WordOf(3).ids);
  EXPECT_FALSE(words.Find(6, KeyOf(3), found));
}

// More words than places, so that each read can meet a write.
TEST(SharedWords, NeverGivesAWordAnothersIds) {
  constexpr uint64_t kWords = 8, kRounds = 20'000;
  SharedWords words;
  words.Make();
  const auto work = [&](uint64_t thread, uint64_t& found, uint64_t& wrong) {
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t word = (round * 7 + thread * 3) % kWords;
      CachedWord cached;
      words.Put(word % 2, WordOf(word));
      if (!words.Find(word % 2, KeyOf(word), cached)) continue;
      ++found;
      if (!cached.IsOf(KeyOf(word)) || cached.ids != WordOf(word).ids) ++wrong;
    }
  };
  std::vector<uint64_t> found(4), wrong(4);
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < found.size(); ++thread) {
    threads.emplace_back([&, thread] { work(thread, found[thread], wrong[thread]); });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t all = 0;
  for (size_t thread = 0; thread < found.size(); ++thread) {
    all += found[thread];
    EXPECT_EQ(wrong[thread], 0) << "thread " << thread;
  }
  EXPECT_GT(all, 0);
}

}  // namespace
}  // namespace zerofleet::text
