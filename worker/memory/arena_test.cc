// Rows, figures, and the refusal of what does not fit.
#include "worker/memory/arena.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/cpu/cpu_device.h"

namespace zerofleet::memory {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ArenaTest : public testing::Test {
 protected:
  std::unique_ptr<Arena> Make(std::vector<MemoryRow> rows) {
    return *Arena::Create(MemoryPlan{std::move(rows)}, Space::kDevice, *device_);
  }
  std::unique_ptr<device::Device> device_ = *device::CreateDevice({.kind = "cpu", .threads = 1});
};

TEST_F(ArenaTest, HandsOutPlannedRowsApartFromEachOther) {
  auto arena = Make({{Space::kDevice, Category::kParameters, "p", 100},
                     {Space::kDevice, Category::kOptimizer, "o", 300},
                     {Space::kHost, Category::kBuffers, "h", 50}});
  std::byte* p = arena->Take("p");
  std::byte* o = arena->Take("o");
  EXPECT_GE(std::abs(p - o), 100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(o) % 64, 0u);
  ArenaFigures figures = arena->figures();
  EXPECT_EQ(figures.categories[static_cast<int>(Category::kParameters)].current, 100);
  EXPECT_EQ(figures.categories[static_cast<int>(Category::kOptimizer)].current, 300);
  EXPECT_EQ(figures.allocated, figures.reserved);
  EXPECT_EQ(figures.FragmentationRatio(), 0);
}

TEST_F(ArenaTest, WhatIsNotTakenYetIsFree) {
  auto arena = Make({{Space::kDevice, Category::kBuffers, "a", 64},
                     {Space::kDevice, Category::kBuffers, "b", 100},
                     {Space::kDevice, Category::kBuffers, "c", 64}});
  arena->Take("b");
  const ArenaFigures figures = arena->figures();
  EXPECT_EQ(figures.reserved, 256);
  EXPECT_EQ(figures.allocated, 128);          // rounded up to 64 bytes
  EXPECT_EQ(figures.largest_free_block, 64);  // on either side of it
  EXPECT_EQ(figures.FragmentationRatio(), 0.5);
  EXPECT_EQ(figures.categories[static_cast<int>(Category::kBuffers)].current, 100);
}

// Records each reservation, and refuses them while `full`.
class SeenDevice : public device::CpuDevice {
 public:
  SeenDevice() : device::CpuDevice(1) {}
  absl::StatusOr<std::unique_ptr<device::Reservation>> Reserve(int64_t bytes) override {
    if (full) return absl::ResourceExhaustedError("full");
    reserved.push_back(bytes);
    return device::CpuDevice::Reserve(bytes);
  }
  bool full = false;
  std::vector<int64_t> reserved;
};

TEST(ArenaLateRows, AreReservedWhenTheyAreTaken) {
  SeenDevice device;
  const MemoryPlan plan{
      {{Space::kHost, Category::kBuffers, "a", 64}, {Space::kHost, Category::kBuffers, "later", 1000, /*late=*/true}}};
  EXPECT_EQ(plan.Bytes(Space::kHost), 1064);
  const auto arena = *Arena::Create(plan, Space::kHost, device);
  EXPECT_THAT(device.reserved, ElementsAre(64));
  arena->Take("a");
  EXPECT_EQ(arena->figures().categories[static_cast<int>(Category::kBuffers)].peak, 64);

  device.full = true;
  const absl::Status refused = arena->TakeLate("later").status();
  EXPECT_EQ(refused, absl::ResourceExhaustedError("host memory for the later: full"));
  EXPECT_EQ(arena->figures().reserved, 64);
  EXPECT_EQ(arena->figures().categories[static_cast<int>(Category::kBuffers)].peak, 64);

  device.full = false;
  const std::shared_ptr<device::Reservation> later = *arena->TakeLate("later");
  std::byte* const place = later->data();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(place) % 64, 0u);
  EXPECT_EQ(place[999], std::byte{0});
  EXPECT_THAT(device.reserved, ElementsAre(64, 1024));
  const ArenaFigures figures = arena->figures();
  EXPECT_EQ(figures.reserved, 64 + 1024);
  EXPECT_EQ(figures.allocated, figures.reserved);
  EXPECT_EQ(figures.largest_free_block, 0);
  EXPECT_EQ(figures.categories[static_cast<int>(Category::kBuffers)].current, 1064);
  EXPECT_EQ(figures.categories[static_cast<int>(Category::kBuffers)].peak, 1064);
}

TEST(ArenaLateRows, AreKeptFromOneArenaToTheNext) {
  SeenDevice device;
  const MemoryPlan plan{{{Space::kHost, Category::kBuffers, "later", 1000, /*late=*/true}}};
  auto first = *Arena::Create(plan, Space::kHost, device);
  const std::shared_ptr<device::Reservation> later = *first->TakeLate("later");
  later->data()[999] = std::byte{7};
  first.reset();
  const auto second = *Arena::Create(plan, Space::kHost, device);
  device.reserved.clear();
  second->KeepLate("later", later);
  EXPECT_THAT(device.reserved, ElementsAre());
  EXPECT_EQ(later->data()[999], std::byte{7});
  EXPECT_EQ(second->figures().reserved, 64 + 1024);
  EXPECT_EQ(second->figures().categories[static_cast<int>(Category::kBuffers)].current, 1000);
  EXPECT_DEATH(second->TakeLate("later").IgnoreError(), "check failed");
}

// ZeRO §6.3: gradients lie where the backward leaves activations, in a model of two layers.
TEST_F(ArenaTest, RowsThatNoPhaseUsesTogetherShareMemory) {
  const MemoryPlan plan{
      {{Space::kDevice, Category::kOptimizer, "states", 100},
       {Space::kDevice, Category::kActivations, "activations", 500, false, {{256, 0, 2}, {244, 0, 1}}},
       {Space::kDevice, Category::kGradients, "gradients", 384, false, {{192, 2}, {192, 1}}}}};
  // Phase 1 has all activations and one gradient, besides the states; each is rounded up to 64 bytes.
  EXPECT_EQ(plan.SharedBytes(Space::kDevice), 192);
  EXPECT_EQ(plan.Bytes(Space::kDevice), 100 + 500 + 384 - 192);
  EXPECT_EQ(plan.Bytes(Space::kDevice, Category::kGradients), 384);
  const auto arena = *Arena::Create(plan, Space::kDevice, *device_);
  std::byte *const states = arena->Take("states"), *const activations = arena->Take("activations"),
                   *const gradients = arena->Take("gradients");
  EXPECT_EQ(activations - states, 128);
  EXPECT_EQ(gradients - activations, 512 - 192);
  const ArenaFigures figures = arena->figures();
  EXPECT_EQ(figures.reserved, 128 + 512 + 192);
  EXPECT_EQ(figures.allocated, figures.reserved);
  EXPECT_EQ(figures.categories[static_cast<int>(Category::kGradients)].peak, 384);
}

// Memory that no row uses in the busiest phase counts as free, even if the rows' order keeps others out of it.
TEST_F(ArenaTest, MemoryThatIsNeverInUseIsFree) {
  auto arena = Make({{Space::kDevice, Category::kBuffers, "a", 384, false, {{64, 1, 1}, {256, 0, 0}, {64, 1, 1}}},
                     {Space::kDevice, Category::kBuffers, "b", 128, false, {{128, 0, 1}}}});
  arena->Take("a");
  arena->Take("b");
  const ArenaFigures figures = arena->figures();
  EXPECT_EQ(figures.reserved, 512);
  EXPECT_EQ(figures.allocated, 384);  // in phase 0
  EXPECT_EQ(figures.largest_free_block, 64);
  EXPECT_EQ(figures.FragmentationRatio(), 0.5);
}

TEST_F(ArenaTest, PiecesAreAllOfARow) {
  EXPECT_DEATH(Make({{Space::kDevice, Category::kBuffers, "a", 192, false, {{64, 1, 1}}}}), "check failed");
}

TEST(ArenaFigures, FragmentationIsTheShareOfFreeMemoryOutsideTheLargestBlock) {
  ArenaFigures figures;
  figures.reserved = 300;
  figures.allocated = 100;
  figures.largest_free_block = 50;
  EXPECT_DOUBLE_EQ(figures.FragmentationRatio(), 0.75);
  figures.allocated = 300;
  EXPECT_EQ(figures.FragmentationRatio(), 0);
}

TEST_F(ArenaTest, TooLargeAPlanNamesItsLargestRow) {
  MemoryPlan plan{{{Space::kDevice, Category::kOptimizer, "states", int64_t{1} << 60}}};
  absl::Status status = Arena::Create(plan, Space::kDevice, *device_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("states"));
}

TEST_F(ArenaTest, UnplannedMemoryIsABug) {
  auto arena = Make({{Space::kDevice, Category::kBuffers, "a", 64}});
  EXPECT_DEATH(arena->Take("b"), "check failed");
  arena->Take("a");
  EXPECT_DEATH(arena->Take("a"), "check failed");
  auto late = Make({{Space::kDevice, Category::kBuffers, "l", 64, /*late=*/true}});
  EXPECT_DEATH(late->Take("l"), "check failed");
  EXPECT_TRUE(late->TakeLate("l").ok());
  EXPECT_DEATH(late->TakeLate("l").IgnoreError(), "check failed");
}

TEST(PeakResidentBytes, IsMoreThanNothing) { EXPECT_GT(PeakResidentBytes(), 1 << 20); }

}  // namespace
}  // namespace zerofleet::memory
