// Threads of which some throw.
#include "base/threads.h"

#include <atomic>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace zerofleet {
namespace {

TEST(RunOnThreads, OneIsTheCallers) {
  const std::thread::id here = std::this_thread::get_id();
  std::atomic<int> calls = 0, calls_here = 0;
  RunOnThreads(3, [&] {
    ++calls;
    if (std::this_thread::get_id() == here) ++calls_here;
  });
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(calls_here, 1);
  RunOnThreads(0, [&] { ++calls; });
  EXPECT_EQ(calls, 4);
}

TEST(RunOnThreads, AnExceptionOfAnyThreadArrivesWhenAllAreDone) {
  const std::thread::id here = std::this_thread::get_id();
  for (const bool throws_here : {false, true}) {
    std::atomic<int> done = 0;
    EXPECT_THROW(RunOnThreads(3,
                              [&] {
                                if ((std::this_thread::get_id() == here) == throws_here) throw std::bad_alloc();
                                ++done;
                              }),
                 std::bad_alloc);
    EXPECT_EQ(done, throws_here ? 2 : 1);
  }
}

}  // namespace
}  // namespace zerofleet
