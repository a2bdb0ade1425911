// The emulated GPU block: order, barriers, exchanges, and that behaviour which is undefined on a GPU fails.
#include "worker/device/cuda/emulation/fibers.h"

#include <cmath>
#include <cstring>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

namespace zerofleet::device::cuda::emulation {
namespace {

constexpr ThreadOrder kOrders[] = {ThreadOrder::kForward, ThreadOrder::kBackward, ThreadOrder::kShuffled};

unsigned Thread() { return CurrentThread().thread.x; }

class FibersTest : public ::testing::TestWithParam<ThreadOrder> {
 protected:
  void SetUp() override { SetThreadOrder(GetParam()); }
  void TearDown() override { SetThreadOrder(ThreadOrder::kForward); }
};

INSTANTIATE_TEST_SUITE_P(Orders, FibersTest, ::testing::ValuesIn(kOrders));

TEST_P(FibersTest, EveryThreadOfEveryBlockRunsOnce) {
  std::multiset<std::tuple<int, int, int, int, int, int>> seen;
  RunGrid("op", dim3(3, 2, 2), dim3(5, 3, 2), 0, [&] {
    const ThreadPlace& at = CurrentThread();
    seen.insert({at.block.x, at.block.y, at.block.z, at.thread.x, at.thread.y, at.thread.z});
    EXPECT_EQ(at.block_size.y, 3u);
    EXPECT_EQ(at.grid_size.x, 3u);
  });
  EXPECT_EQ(seen.size(), 12u * 30u);
  EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), seen.size());
}

TEST_P(FibersTest, NoThreadPassesABarrierBeforeAllHaveComeToIt) {
  constexpr int kThreads = 300, kRounds = 5;
  std::vector<int> arrived(kRounds);
  RunGrid("op", dim3(2), dim3(kThreads), 0, [&] {
    for (int round = 0; round < kRounds; ++round) {
      ++arrived[round];
      Barrier(__LINE__);
      EXPECT_EQ(arrived[round] % kThreads, 0);
      EXPECT_EQ(Thread(), CurrentThread().thread.x);  // the current thread is known after a switch
    }
  });
  EXPECT_EQ(arrived, std::vector<int>(kRounds, 2 * kThreads));
}

TEST_P(FibersTest, LanesExchangeWithinTheirWarp) {
  for (int lanes = 0; lanes < 32; ++lanes) {
    RunGrid("op", dim3(1), dim3(96), 0, [&] {
      const unsigned thread = Thread();
      EXPECT_EQ(ExchangeXor(1000 + thread, lanes, __LINE__), 1000 + (thread ^ static_cast<unsigned>(lanes)));
      EXPECT_EQ(ExchangeXor(thread, 1, __LINE__), thread ^ 1u);
    });
  }
}

TEST_P(FibersTest, WarpsExchangeAtTheirOwnPace) {
  // Each warp makes a different number of exchanges before the barrier.
  RunGrid("op", dim3(1), dim3(128), 0, [&] {
    const unsigned warp = Thread() / 32;
    uint64_t sum = 1;
    for (unsigned round = 0; round < warp; ++round) sum += ExchangeXor(sum, 16, __LINE__);
    Barrier(__LINE__);
    EXPECT_EQ(sum, uint64_t{1} << warp);
  });
}

TEST_P(FibersTest, DynamicSharedMemoryIsTheBlocksOwnAndPoisoned) {
  RunGrid("op", dim3(4), dim3(64), 64 * sizeof(float), [&] {
    float* const shared = static_cast<float*>(DynamicShared());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(shared) % 16, 0u);
    EXPECT_TRUE(std::isnan(shared[Thread()]));
    Barrier(__LINE__);
    shared[Thread()] = static_cast<float>(Thread());
    Barrier(__LINE__);
    EXPECT_EQ(shared[63 - Thread()], static_cast<float>(63 - Thread()));
  });
}

TEST_P(FibersTest, HostThreadsRunGridsAtTheSameTime) {
  std::vector<std::thread> hosts;
  std::vector<int64_t> sums(4);
  for (int host = 0; host < 4; ++host) {
    hosts.emplace_back([&sums, host] {
      static thread_local int64_t shared[64];  // what a kernel's static __shared__ becomes
      RunGrid("op", dim3(20), dim3(64), 0, [&] {
        shared[Thread()] = host;
        Barrier(__LINE__);
        sums[host] += shared[63 - Thread()];
        Barrier(__LINE__);
      });
    });
  }
  for (std::thread& host : hosts) host.join();
  for (int host = 0; host < 4; ++host) EXPECT_EQ(sums[host], host * 20 * 64);
}

// Without a barrier, sums differ when threads run in another order, which is the purpose of the orders.
TEST(ThreadOrderTest, ShowsAMissingBarrier) {
  const auto sum = [](ThreadOrder order) {
    SetThreadOrder(order);
    static thread_local int last = 0;
    int seen = 0;
    RunGrid("op", dim3(1), dim3(32), 0, [&] {
      last = static_cast<int>(Thread());
      if (Thread() == 16) seen = last;
      if (Thread() == 0) seen = seen * 100 + last;
      Barrier(__LINE__);
      if (Thread() == 0) seen = seen * 100 + last;
    });
    SetThreadOrder(ThreadOrder::kForward);
    return seen;
  };
  EXPECT_NE(sum(ThreadOrder::kForward), sum(ThreadOrder::kBackward));
}

using FibersDeathTest = ::testing::Test;

TEST(FibersDeathTest, AThreadThatLeavesOthersAtABarrier) {
  EXPECT_DEATH(RunGrid("LayerNorm", dim3(1), dim3(64), 0,
                       [] {
                         if (Thread() != 7) Barrier(__LINE__);
                       }),
               "LayerNorm: threads wait for others that never come(.|\n)*threads 7 to 7: ended");
}

TEST(FibersDeathTest, ThreadsAtDifferentBarriers) {
  EXPECT_DEATH(RunGrid("op", dim3(1), dim3(64), 0, [] { Barrier(Thread() < 32 ? 1 : 2); }),
               "threads of a block wait at different barriers");
}

TEST(FibersDeathTest, ALaneThatDoesNotTakePart) {
  EXPECT_DEATH(RunGrid("op", dim3(1), dim3(64), 0,
                       [] {
                         if (Thread() != 40) ExchangeXor(1, 1, __LINE__);
                       }),
               "threads wait for others that never come");
}

TEST(FibersDeathTest, LanesInDifferentExchanges) {
  EXPECT_DEATH(RunGrid("op", dim3(1), dim3(32), 0, [] { ExchangeXor(1, Thread() < 16 ? 1 : 2, __LINE__); }),
               "lanes of a warp exchange in different places");
}

TEST(FibersDeathTest, AnExchangeInAPartOfAWarp) {
  EXPECT_DEATH(RunGrid("op", dim3(1), dim3(33), 0, [] { ExchangeXor(1, 1, __LINE__); }),
               "a warp of fewer than 32 threads");
}

TEST(FibersDeathTest, MoreThanAGpuHas) {
  EXPECT_DEATH(RunGrid("op", dim3(1), dim3(1025), 0, [] {}), "1 to 1024 threads");
  EXPECT_DEATH(RunGrid("op", dim3(1, 65536), dim3(1), 0, [] {}), "too many blocks");
  EXPECT_DEATH(RunGrid("op", dim3(1), dim3(1), (227 << 10) + 1, [] {}), "227 KiB");
}

}  // namespace
}  // namespace zerofleet::device::cuda::emulation
