// The pool runs every block once, on any number of threads, for several callers.
#include "worker/device/cpu/thread_pool.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace zerofleet::device {
namespace {

TEST(ThreadPoolTest, EveryTaskRunsOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const int64_t tasks : {0, 1, 2, 3, 1000}) {
      std::vector<std::atomic<int>> runs(tasks);
      pool.Run(tasks, [&](int64_t index, int thread) {
        EXPECT_GE(thread, 0);
        EXPECT_LT(thread, threads);
        ASSERT_GE(index, 0);
        ASSERT_LT(index, tasks);
        ++runs[index];
      });
      for (const auto& count : runs) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ThreadPoolTest, BlocksCoverTheRangeWhateverTheThreads) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (const int64_t count : {1, 1001, 10001}) {
      std::vector<std::atomic<int>> seen(count);
      pool.RunBlocks(count, 64, [&](int64_t begin, int64_t end) {
        EXPECT_EQ(begin % 64, 0);
        EXPECT_EQ(end, std::min(count, begin + 64));
        for (int64_t i = begin; i < end; ++i) ++seen[i];
      });
      for (const auto& times : seen) EXPECT_EQ(times, 1);
    }
  }
}

TEST(ThreadPoolTest, TwoCallersTakeTurns) {
  ThreadPool pool(3);
  std::atomic<int> inside[2] = {}, clashes = 0;
  const auto call = [&](int self) {
    for (int round = 0; round < 200; ++round) {
      pool.Run(8, [&](int64_t, int) {
        ++inside[self];
        if (inside[1 - self] > 0) ++clashes;
        --inside[self];
      });
    }
  };
  std::thread other(call, 1);
  call(0);
  other.join();
  EXPECT_EQ(clashes, 0);
}

}  // namespace
}  // namespace zerofleet::device
