// ZeRO §6.2: constant-size buffers (C_B). "When the model size is large, ... we use performance-efficient constant-size
// fused buffers": the buffers that gradients pass through do not grow with the model, and no bit depends on their size.
//
// In stage 3 the parameters of the units in use are not constant, since the model uses whole units.
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/zero/fleet_testing.h"
#include "worker/zero/slots.h"

namespace zerofleet::zero {
namespace {

using ::testing::ElementsAreArray;

constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;

// Matrices have several tiles, whose edges differ between the logits' and the gradients' products, and a vocabulary has
// several bands. With two kilobytes most pieces of a unit are shorter than a band, and some bands longer than a bucket.
FleetSetup BucketFleet(int stage, device::DType dtype, int64_t micro_batches) {
  return {.model = model::TestModelConfig(2, 48, 4, 10, 700),
          .stage = stage,
          .world_size = 2,
          .dtype = dtype,
          .global_sequences = 2 * micro_batches,
          .micro_batches = micro_batches,
          .steps = 3};
}

void ExpectTheBitsOfWholeUnits(const FleetSetup& setup, const std::vector<int64_t>& sizes) {
  const FleetResult plain = TrainFleet(setup);
  for (const int64_t bytes : sizes) {
    SCOPED_TRACE(absl::StrCat("stage ", setup.stage, ", ", device::DTypeName(setup.dtype), ", micro-batches ",
                              setup.micro_batches, ", tensor ", setup.tensor, ", buckets of ", bytes));
    FleetSetup in_buckets = setup;
    in_buckets.bucket_bytes = bytes;
    const FleetResult result = TrainFleet(in_buckets);
    EXPECT_THAT(result.losses, ElementsAreArray(plain.losses));
    EXPECT_THAT(result.grad_norms, ElementsAreArray(plain.grad_norms));
    EXPECT_EQ(result.states, plain.states);
  }
}

class ConstantBuffers : public testing::TestWithParam<std::tuple<int, device::DType, int64_t>> {};

TEST_P(ConstantBuffers, ChangeNoBit) {
  const auto& [stage, dtype, micro_batches] = GetParam();
  ExpectTheBitsOfWholeUnits(BucketFleet(stage, dtype, micro_batches), {2 * kKiB, 64 * kKiB});
}

INSTANTIATE_TEST_SUITE_P(Stages, ConstantBuffers,
                         testing::Combine(testing::Values(0, 1, 2, 3),
                                          testing::Values(device::DType::kF32, device::DType::kBF16),
                                          testing::Values(1, 3)),
                         [](const auto& info) {
                           return absl::StrCat("stage_", std::get<0>(info.param), "_",
                                               device::DTypeName(std::get<1>(info.param)), "_of_",
                                               std::get<2>(info.param));
                         });

TEST(ConstantBuffersOfAllSizes, ChangeNoBitInThirtySteps) {
  for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
    for (int stage = 0; stage <= 3; ++stage) {
      FleetSetup setup = BucketFleet(stage, dtype, 1);
      setup.steps = 30;
      ExpectTheBitsOfWholeUnits(setup, {64 * kKiB, 64 * kMiB});
    }
  }
}

// Shards of ranks end in the middle of buckets, and there are more ranks than some pieces have elements.
TEST(ConstantBuffersOfAllSizes, ChangeNoBitOnThreeRanks) {
  FleetSetup setup = BucketFleet(3, device::DType::kBF16, 1);
  setup.world_size = setup.global_sequences = 3;
  ExpectTheBitsOfWholeUnits(setup, {1 * kKiB, 6 * kKiB});
}

TEST(ConstantBuffersOfAllSizes, ChangeNoBitWithCheckpointing) {
  for (const model::Checkpointing& checkpointing : {model::Checkpointing{.segment = 1}, {.selective = true}}) {
    FleetSetup setup = BucketFleet(3, device::DType::kBF16, 1);
    setup.checkpointing = checkpointing;
    ExpectTheBitsOfWholeUnits(setup, {16 * kKiB});
  }
}

// Another rank's micro-batch is computed first, and no part of it may reach a bucket.
TEST(ConstantBuffersOfAllSizes, ChangeNoBitWithReplays) {
  FleetSetup setup = BucketFleet(2, device::DType::kBF16, 1);
  const FleetResult plain = TrainFleet(setup);
  setup.bucket_bytes = 16 * kKiB;
  setup.checks = {.replay = true};
  EXPECT_EQ(TrainFleet(setup).states, plain.states);
}

// The vocabulary has 701 tokens, so the second part has one row of padding.
TEST(ConstantBuffersOfAllSizes, ChangeNoBitOfAModelInParts) {
  for (const int stage : {1, 3}) {
    FleetSetup setup = BucketFleet(stage, device::DType::kBF16, 1);
    setup.model.set_vocab(701);
    setup.tensor = 2;
    setup.checkpointing = {.segment = 1, .partition = true};
    ExpectTheBitsOfWholeUnits(setup, {2 * kKiB, 64 * kKiB});
    setup.checkpointing.partition = false;
    setup.sequence = true;
    ExpectTheBitsOfWholeUnits(setup, {2 * kKiB});
  }
}

// A GPU's products come from the vendor: parts of a product use the algorithm of the whole.
TEST(ConstantBuffersOfAllSizes, ChangeNoBitOnOtherDevices) {
  for (const std::string& device : UsableDevices()) {
    if (device == "cpu") continue;  // covered by the tests above
    for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
      for (const int tensor : {1, 2}) {
        FleetSetup setup = BucketFleet(tensor == 1 ? 1 : 3, dtype, 1);
        setup.device = device;
        setup.tensor = tensor;
        setup.steps = 2;
        ExpectTheBitsOfWholeUnits(setup, {16 * kKiB});
      }
    }
  }
}

struct BucketStep {
  int64_t gathered = 0, parameter_slots = 0, calls = 0, bytes = 0, psi = 0;
};

BucketStep RunAStep(const FleetSetup& setup) {
  BucketStep measured;
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(1).ok());
    ZF_CHECK(rank.engine().Finish().ok());
    int64_t calls = 0, bytes = 0;
    for (const auto& [operation, totals] : rank.communicator().totals()) calls -= totals.calls, bytes -= totals.bytes;
    rank.Step(1);
    ZF_CHECK(rank.engine().Finish().ok());
    for (const auto& [operation, totals] : rank.communicator().totals()) calls += totals.calls, bytes += totals.bytes;
    if (rank.layout().options().rank != 0) return;
    measured.gathered = rank.arena().figures().categories[static_cast<int>(memory::Category::kGathered)].peak;
    measured.calls = calls;
    measured.bytes = bytes;
    measured.psi = rank.layout().partition().TotalElements();
    if (!rank.layout().stage().split_parameters) return;
    for (const int unit : PlanSlots(rank.layout().unit_kinds()).unit_of_slot) {
      measured.parameter_slots += rank.layout().partition().PaddedElements(unit) * device::DTypeBytes(setup.dtype);
    }
  });
  return measured;
}

// The buffers are a band and two buckets; gradients that rest whole need only the band, or nothing if they rest in
// fp32.
TEST(ConstantBuffersOfAllSizes, AreAsLargeAsTheFormulaSays) {
  constexpr int64_t kBucket = 256 * kKiB;
  for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
    for (int stage = 0; stage <= 3; ++stage) {
      FleetSetup small = BucketFleet(stage, dtype, 1);
      small.bucket_bytes = kBucket;
      FleetSetup large = small;
      large.model = model::TestModelConfig(5, 96, 4, 20, 2800);
      const BucketStep of_small = RunAStep(small), of_large = RunAStep(large);
      EXPECT_GT(of_large.psi, 8 * of_small.psi);
      const int64_t whole = dtype == device::DType::kF32 ? 0 : kBucket;
      for (const BucketStep& one : {of_small, of_large}) {
        EXPECT_EQ(one.gathered - one.parameter_slots, stage < 2 ? whole : 3 * kBucket) << "stage " << stage;
      }
    }
  }
}

// An all-reduce takes the place of a reduce-scatter: one more gather of the gradients, exact to the byte except for the
// padding of units and of parts of buckets; and small units go together.
TEST(ConstantBuffersOfAllSizes, CostAGatherOfTheGradients) {
  for (const int stage : {2, 3}) {
    FleetSetup setup = BucketFleet(stage, device::DType::kBF16, 1);
    const BucketStep whole = RunAStep(setup);
    setup.bucket_bytes = 64 * kKiB;
    const BucketStep buckets = RunAStep(setup);
    const int64_t sent = buckets.psi * 2 / 2;  // one of two ranks sends it, at two bytes per element
    EXPECT_NEAR(static_cast<double>(buckets.bytes - whole.bytes), static_cast<double>(sent),
                0.01 * static_cast<double>(sent));
    const int64_t full = (buckets.psi * 2 + 64 * kKiB - 1) / (64 * kKiB);
    EXPECT_EQ(buckets.calls - whole.calls, 2 * full - 4) << "two a bucket for one a unit";
    setup.bucket_bytes = kMiB;
    EXPECT_EQ(RunAStep(setup).calls - whole.calls, 2 - 4) << "four units in one bucket";
  }
}

TEST(ConstantBuffersOfAllSizes, AreInTheSchedule) {
  for (int stage = 0; stage <= 3; ++stage) {
    FleetSetup setup = BucketFleet(stage, device::DType::kBF16, stage == 2 ? 3 : 1);
    setup.bucket_bytes = 16 * kKiB;
    setup.steps = 1;
    RunFleet(setup, [&](TestRank& rank) {
      ZF_CHECK(rank.engine().Initialize(1).ok());
      const std::vector<ScheduledCollective> schedule =
          *StepSchedule({setup.model, TestOptimizer(), rank.spec(), rank.layout()});
      rank.Step(1);
      ZF_CHECK(rank.engine().Finish().ok());
      std::vector<ScheduledCollective> posted;
      for (const collective::CollectiveRecord& record : rank.StopAndTakeRecords()) {
        posted.push_back({parallel::kDataGroup, record.operation, record.unit, record.gathered_bytes});
      }
      EXPECT_EQ(DescribeSchedule(posted), DescribeSchedule(schedule)) << "stage " << stage;
    });
  }
}

}  // namespace
}  // namespace zerofleet::zero
