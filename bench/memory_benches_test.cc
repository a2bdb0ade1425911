// The caching allocator's rules one by one, the consistency of a trace, and the case for planned memory.
#include "bench/memory_benches.h"

#include <set>

#include "bench/caching_allocator.h"
#include "gtest/gtest.h"
#include "worker/model/model_testing.h"

namespace zerofleet::bench {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(CachingAllocatorTest, RoundsUpAndSharesSmallSegments) {
  CachingAllocator allocator(100 * kMiB);
  EXPECT_TRUE(allocator.Allocate(1, 1));
  EXPECT_TRUE(allocator.Allocate(2, 513));
  EXPECT_EQ(allocator.allocated(), 512 + 1024);
  EXPECT_EQ(allocator.figures().largest_free_block, 98 * kMiB) << "one segment of 2 MiB holds both";
}

TEST(CachingAllocatorTest, TakesTheSmallestBlockThatIsLargeEnough) {
  CachingAllocator allocator(20 * kMiB);  // one shared segment
  for (const int64_t mebibytes : {6, 2, 4, 8}) EXPECT_TRUE(allocator.Allocate(mebibytes, mebibytes * kMiB));
  allocator.Free(6);
  allocator.Free(4);
  EXPECT_TRUE(allocator.Allocate(1, 4 * kMiB));
  EXPECT_TRUE(allocator.Allocate(3, 6 * kMiB)) << "the first took a part of the larger block";
}

TEST(CachingAllocatorTest, FreeNeighboursOfASegmentJoin) {
  CachingAllocator allocator(20 * kMiB);
  for (int64_t tensor = 1; tensor <= 4; ++tensor) EXPECT_TRUE(allocator.Allocate(tensor, 5 * kMiB));
  for (const int64_t tensor : {1, 3, 2}) allocator.Free(tensor);
  EXPECT_EQ(allocator.figures().largest_free_block, 15 * kMiB);
  EXPECT_TRUE(allocator.Allocate(5, 9 * kMiB));
}

TEST(CachingAllocatorTest, GivesFreeSegmentsBackBeforeItFails) {
  CachingAllocator allocator(32 * kMiB);
  EXPECT_TRUE(allocator.Allocate(1, 16 * kMiB));
  EXPECT_TRUE(allocator.Allocate(2, 16 * kMiB));
  allocator.Free(1);
  EXPECT_FALSE(allocator.Allocate(3, 18 * kMiB)) << "half of the device is free, in a segment that is too small";
  allocator.Free(2);
  EXPECT_TRUE(allocator.Allocate(3, 32 * kMiB));
}

TEST(CachingAllocatorTest, FragmentationIsOfTheWholeDevice) {
  CachingAllocator allocator(40 * kMiB);
  for (int64_t tensor = 1; tensor <= 4; ++tensor) EXPECT_TRUE(allocator.Allocate(tensor, 5 * kMiB));
  EXPECT_EQ(allocator.figures().FragmentationRatio(), 0);
  allocator.Free(2);
  EXPECT_DOUBLE_EQ(allocator.figures().FragmentationRatio(), 1 - 20.0 / 25);
}

TrainingShape Small(model::Checkpointing checkpointing) {
  TrainingShape shape;
  shape.model = model::TestModelConfig(4, 64, 4, 32, 256);
  shape.checkpointing = checkpointing;
  shape.sequences = 2;
  shape.times = {32, 16, 32};
  shape.ranks = 2;
  return shape;
}

TEST(AllocationTraceTest, GivesBackWhatItTakes) {
  for (const int64_t segment : {int64_t{1}, int64_t{2}, model::Checkpointing::kAllBlocks}) {
    std::set<int64_t> in_use;
    const std::vector<AllocationEvent> trace = TraceTraining(Small({.segment = segment})).value();
    for (const AllocationEvent& event : trace) {
      if (event.bytes > 0) {
        EXPECT_TRUE(in_use.insert(event.tensor).second);
      } else {
        EXPECT_EQ(in_use.erase(event.tensor), 1u);
      }
    }
    EXPECT_TRUE(in_use.empty());
  }
}

TEST(AllocationTraceTest, CheckpointsTakeLessThanWholeActivations) {
  const int64_t whole = PeakBytes(TraceTraining(Small({})).value());
  EXPECT_LT(PeakBytes(TraceTraining(Small({.segment = 1})).value()), whole);
}

TEST(AllocationTraceTest, PlacesShareMemoryOnlyOneAfterAnother) {
  // Tensors 1 and 2 live at the same time, 3 after 1.
  EXPECT_EQ(PlacedBytes({{1, 640}, {2, 128}, {1, 0}, {3, 600}, {2, 0}, {3, 0}}), 640 + 128);
  // Tensor 4 lives as long as all of them.
  EXPECT_EQ(PlacedBytes({{4, 64}, {1, 640}, {2, 128}, {1, 0}, {3, 600}, {2, 0}, {3, 0}, {4, 0}}), 640 + 128 + 64);
}

TEST(AllocationTraceTest, PlacesTakeLittleMoreThanThePeak) {
  const std::vector<AllocationEvent> trace = TraceTraining(Small({.segment = 1})).value();
  EXPECT_GE(PlacedBytes(trace), PeakBytes(trace));
  EXPECT_LT(PlacedBytes(trace), PeakBytes(trace) * 11 / 10);
}

// ZeRO §3.2: out of memory with over 30% of it free.
TEST(FragmentationTest, TheCachingAllocatorFailsWithAThirdFreeWhereAnArenaFits) {
  const FragmentationResult result = BenchFragmentation(FragmentationWorks()[1]).value();
  EXPECT_GT(result.free_share, 0.3);
  EXPECT_LE(result.placed_bytes, result.limit_bytes);
  EXPECT_GT(result.fragmentation_ratio, 0);
}

}  // namespace
}  // namespace zerofleet::bench
