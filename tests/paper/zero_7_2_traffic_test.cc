// ZeRO §7.2: a step sends 2 * parameters elements in stages 0 to 2 and 3 * parameters in stage 3, of which a rank sends
// (N-1)/N; here with checkpointing and with several micro-batches, to the byte.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/zero/fleet_testing.h"
#include "worker/zero/step_sums.h"

namespace zerofleet::zero {
namespace {

using ::testing::ElementsAreArray;

constexpr int kWorld = 2, kLayers = 5;

// The bytes that one step sends, without the scalars at its end.
struct Sent {
  int64_t gathered = 0, reduced = 0;  // bytes of each collective's whole buffer
};

Sent SentInOneStep(FleetSetup setup) {
  setup.model = model::TestModelConfig(kLayers, 24, 3, 10, 53);
  setup.world_size = kWorld;
  Sent sent;
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(1).ok());
    rank.Step(1);
    ZF_CHECK(rank.engine().Finish().ok());
    const int number = rank.layout().options().rank;
    int64_t bytes = 0;
    for (const auto& [operation, totals] : rank.communicator().totals()) bytes += totals.bytes;
    const std::vector<ScheduledCollective> schedule = *StepSchedule(
        {setup.model, TestOptimizer(), rank.spec(), rank.layout(), {.checkpointing = setup.checkpointing}});
    const std::vector<collective::CollectiveRecord> records = rank.StopAndTakeRecords();
    EXPECT_EQ(records.size(), schedule.size());  // all collectives are known before the step
    if (number != 0) return;
    for (const collective::CollectiveRecord& record : records) {
      if (record.unit == kScalarsUnit) continue;
      (record.operation == collective::Operation::kAllGather ? sent.gathered : sent.reduced) += record.gathered_bytes;
    }
    EXPECT_EQ(bytes, (sent.gathered + sent.reduced) / kWorld * (kWorld - 1) + 32 * (kWorld - 1));
  });
  return sent;
}

struct Sizes {
  int64_t all = 0, block = 0, head = 0;  // in elements, with padding
};

Sizes UnitSizes() {
  const model::ModelSpec spec = *model::ModelSpec::Create(model::TestModelConfig(kLayers, 24, 3, 10, 53));
  const coordinator::PartitionMap partition(spec.units(), kWorld);
  return {partition.TotalPaddedElements(), partition.PaddedElements(1), partition.PaddedElements(kLayers + 1)};
}

// A block is recomputed while it is gathered for its backward, so checkpointing single blocks sends nothing more. A
// segment of n blocks gathers all but its last once more; the last segment is not recomputed.
TEST(Traffic, OfCheckpointingIsThatOfTheBackwardsGather) {
  const Sizes sizes = UnitSizes();
  for (int stage = 0; stage <= 3; ++stage) {
    const int64_t gathered = (stage == 3 ? 2 * sizes.all - sizes.head : sizes.all) * 4;
    const auto expect = [&](const model::Checkpointing& checkpointing, int64_t more_blocks) {
      const Sent sent = SentInOneStep({.stage = stage, .checkpointing = checkpointing});
      EXPECT_EQ(sent.reduced, 4 * sizes.all);
      EXPECT_EQ(sent.gathered, gathered + (stage == 3 ? more_blocks * sizes.block * 4 : 0))
          << "stage " << stage << ", segments of " << checkpointing.segment;
    };
    expect({}, 0);
    expect({.selective = true}, 0);
    expect({.segment = 1}, 0);
    expect({.segment = 2}, 2);  // segments are blocks 0-1, 2-3 and 4
    expect({.segment = 3}, 2);  // segments are blocks 0-2 and 3-4
    expect({.segment = 5}, 0);
  }
}

// The paper's traffic holds where every micro-batch's gradients are reduced, in the compute type. With `reduce.every:
// step` they are fp32 sums.
TEST(Traffic, OfMicroBatchesDependsOnWhenTheyAreReduced) {
  const Sizes sizes = UnitSizes();
  constexpr int64_t kMicroBatches = 3;
  for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
    const int64_t element = device::DTypeBytes(dtype);
    for (int stage = 0; stage <= 3; ++stage) {
      FleetSetup setup{.stage = stage, .dtype = dtype, .micro_batches = kMicroBatches};
      SCOPED_TRACE(absl::StrCat("stage ", stage, ", ", device::DTypeName(dtype)));
      const Sent each = SentInOneStep(setup);
      setup.reduce = ReduceEvery::kStep;
      const Sent once = SentInOneStep(setup);
      EXPECT_EQ(each.reduced, stage >= 2 ? kMicroBatches * sizes.all * element : sizes.all * 4);
      EXPECT_EQ(once.reduced, sizes.all * 4);
      // Stage 0 gathers gradients, in fp32 as they rest; stage 3 needs the parameters in every pass.
      const int64_t gathered = stage == 0   ? sizes.all * 4
                               : stage == 3 ? kMicroBatches * (2 * sizes.all - sizes.head) * element
                                            : sizes.all * element;
      EXPECT_EQ(each.gathered, gathered);
      EXPECT_EQ(once.gathered, gathered);
    }
  }
}

// Gradients are summed over micro-batches, then over ranks, in every stage, which gives the bits of stages 0 and 1. The
// other order adds the same numbers and rounds differently.
TEST(ReduceEvery, StepGivesTheBitsOfStagesZeroAndOne) {
  for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
    FleetSetup setup{.world_size = 2, .dtype = dtype, .micro_batches = 3, .steps = 10};
    const FleetResult plain = TrainFleet(setup);
    setup.reduce = ReduceEvery::kStep;
    for (setup.stage = 0; setup.stage <= 3; ++setup.stage) {
      const FleetResult once = TrainFleet(setup);
      EXPECT_THAT(once.losses, ElementsAreArray(plain.losses)) << "stage " << setup.stage;
      EXPECT_EQ(once.states, plain.states) << "stage " << setup.stage;
    }
    setup.stage = 2;
    setup.reduce = ReduceEvery::kMicroBatch;
    EXPECT_NE(TrainFleet(setup).states, plain.states);
  }
}

// With one micro-batch there is one sum: nothing changes, memory included.
TEST(ReduceEvery, StepIsNothingToASingleMicroBatch) {
  const model::ModelSpec spec = *model::ModelSpec::Create(model::TestModelConfig(kLayers, 24, 3, 10, 53));
  for (int stage = 0; stage <= 3; ++stage) {
    const ZeroLayout each(spec, {.stage = stage, .world_size = 4});
    const ZeroLayout once(spec, {.stage = stage, .world_size = 4, .reduce = ReduceEvery::kStep});
    EXPECT_EQ(once.Describe(spec), each.Describe(spec));
    EXPECT_EQ(once.gradient_elements(), each.gradient_elements());
  }
}

}  // namespace
}  // namespace zerofleet::zero
