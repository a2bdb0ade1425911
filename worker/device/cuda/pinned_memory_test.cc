// The largest block is kept, and never keeps another from being pinned.
#include "worker/device/cuda/pinned_memory.h"

#include "gtest/gtest.h"
#include "worker/device/cuda/emulation/machine.h"

namespace zerofleet::device::cuda {
namespace {

constexpr int64_t kArena = 1 << 20, kStaging = 1 << 10;

class PinnedMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override { emulation::SetMachine({.pinned_bytes = 3 * kArena / 2}); }
  void TearDown() override {
    EXPECT_EQ(emulation::PinnedBytesHeld(), 0);
    emulation::SetMachine({});
  }
};

TEST_F(PinnedMemoryTest, AnArenaOfTheSameSizeIsNotPinnedAgain) {
  PinnedMemory memory(0);
  std::byte* const first = memory.Take(kArena).value();
  std::byte* const staging = memory.Take(kStaging).value();
  memory.Return(first, kArena);
  memory.Return(staging, kStaging);
  EXPECT_EQ(emulation::PinnedBytesHeld(), kArena);  // the larger one is kept
  std::byte* const small = memory.Take(kStaging).value();
  EXPECT_EQ(emulation::PinnedBytesHeld(), kArena + kStaging);  // and stays there
  EXPECT_EQ(memory.Take(kArena).value(), first);
  EXPECT_EQ(emulation::PinnedBytesHeld(), kArena + kStaging);
  memory.Return(small, kStaging);
  memory.Return(first, kArena);
}

TEST_F(PinnedMemoryTest, AnArenaOfAnotherSizeTakesItsPlace) {
  PinnedMemory memory(0);
  memory.Return(memory.Take(kArena).value(), kArena);
  std::byte* const smaller = memory.Take(kArena / 2).value();
  EXPECT_EQ(emulation::PinnedBytesHeld(), kArena / 2);
  memory.Return(smaller, kArena / 2);
}

TEST_F(PinnedMemoryTest, WhatIsKeptIsNotMissing) {
  emulation::SetMachine({.pinned_bytes = kArena + kStaging});
  PinnedMemory memory(0);
  memory.Return(memory.Take(kArena).value(), kArena);
  std::byte* const other = memory.Take(kArena / 8).value();  // there is no room beside the kept block
  EXPECT_EQ(emulation::PinnedBytesHeld(), kArena / 8);
  EXPECT_EQ(memory.Take(2 * kArena).status().code(), absl::StatusCode::kResourceExhausted);
  memory.Return(other, kArena / 8);
}

}  // namespace
}  // namespace zerofleet::device::cuda
