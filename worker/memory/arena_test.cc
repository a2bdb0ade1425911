// Pieces, merging, figures, and the refusal of what does not fit.
#include "worker/memory/arena.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet {
namespace {

using ::testing::HasSubstr;

class ArenaTest : public testing::Test {
 protected:
  std::unique_ptr<Arena> Make(std::vector<MemoryRow> rows) {
    return *Arena::Create(MemoryPlan{std::move(rows)}, Space::kDevice, *device_);
  }
  std::unique_ptr<Device> device_ = *CreateDevice({.kind = "cpu", .threads = 1});
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

TEST_F(ArenaTest, FragmentationIsSeenAndMergingEndsIt) {
  auto arena = Make({{Space::kDevice, Category::kBuffers, "a", 64},
                     {Space::kDevice, Category::kBuffers, "b", 64},
                     {Space::kDevice, Category::kBuffers, "c", 64}});
  for (const char* name : {"a", "b", "c"}) arena->Take(name);
  arena->Give("a");
  arena->Give("c");
  EXPECT_DOUBLE_EQ(arena->figures().FragmentationRatio(), 0.5);
  arena->Give("b");
  EXPECT_EQ(arena->figures().largest_free_block, 192);
  EXPECT_EQ(arena->figures().FragmentationRatio(), 0);
  EXPECT_EQ(arena->figures().categories[static_cast<int>(Category::kBuffers)].current, 0);
  EXPECT_EQ(arena->figures().categories[static_cast<int>(Category::kBuffers)].peak, 192);
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
}

TEST(PeakResidentBytes, IsMoreThanNothing) { EXPECT_GT(PeakResidentBytes(), 1 << 20); }

}  // namespace
}  // namespace zerofleet
