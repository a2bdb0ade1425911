// Fleets whose model is shared by tensor groups, against the same run with whole models.
#include <cmath>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "worker/zero/fleet_testing.h"
#include "worker/zero/schedule.h"

namespace zerofleet::zero {
namespace {

FleetSetup InParts(int stage, int data, int tensor, const std::string& device = "cpu") {
  FleetSetup setup;
  setup.model = model::TestModelConfig(3, 24, 4, 12, 53);  // the vocabulary is padded
  setup.stage = stage;
  setup.world_size = data;
  setup.tensor = tensor;
  setup.device = device;
  setup.global_sequences = 4;
  setup.learning_rate = 1e-3;  // so that a difference in rounding does not grow faster than the model learns
  // An emulated GPU takes tens of milliseconds per sequence.
  if (device != "cpu") {
    setup.model = model::TestModelConfig(2, 24, 4, 8, 53);
    setup.steps = 2;
  }
  return setup;
}

void ExpectNear(const std::vector<double>& got, const std::vector<double>& want, double relative, const char* what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], relative * std::abs(want[i])) << what << " of step " << i + 1;
  }
}

TEST(TensorFleet, InitialWeightsDoNotDependOnTheDegree) {
  FleetSetup setup = InParts(1, 1, 1);
  setup.steps = 0;
  const std::vector<float> whole = TrainFleet(setup).master();
  for (int tensor : {2, 4}) {
    for (int data : {1, 2}) {
      setup.world_size = data;
      setup.tensor = tensor;
      EXPECT_EQ(TrainFleet(setup).master(), whole) << tensor << " parts, " << data << " ranks each";
    }
  }
}

// What lies between two steps, such as an evaluation and its sums over the tensor group, counts for neither.
TEST(TensorFleet, AStepsPhasesBeginWithIt) {
  const FleetSetup setup = InParts(1, 1, 2);
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(1).ok());
    rank.Step(1);
    const absl::StatusOr<double> loss = rank.engine().EvaluateLossSum(1, [&](int64_t) {
      return EvaluationBatch{*rank.Batch(1, 0), /*counts=*/true};
    });
    ASSERT_TRUE(loss.ok()) << loss.status();
    const StepInput input{.step = 2,
                          .learning_rate = setup.learning_rate,
                          .tokens = setup.global_sequences * setup.model.context(),
                          .traced_since = rank.stream().Record()};
    ASSERT_TRUE(rank.engine().Launch(input, [&](int, int64_t micro) { return rank.Batch(2, micro); }).ok());
    const absl::StatusOr<StepResult> result = rank.engine().Collect();
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_FALSE(result->spans.empty());
    EXPECT_EQ(result->spans[0].phase, StepPhase::kData);
    EXPECT_GE(result->spans[0].begin, 0);
  });
}

// On every device, with tokens whole and divided.
class TensorFleetLosses : public testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  static FleetSetup Fleet(int stage, int data, int tensor) {
    return InParts(stage, data, tensor, std::get<std::string>(GetParam()));
  }
  static bool on_cpu() { return std::get<std::string>(GetParam()) == "cpu"; }
  static bool sequence() { return std::get<bool>(GetParam()); }
};

TEST_P(TensorFleetLosses, OfThirtyStepsAreThoseOfTheWholeModelInEveryStage) {
  FleetSetup setup = Fleet(0, 1, 1);
  if (on_cpu()) setup.steps = 30;
  const FleetResult whole = TrainFleet(setup);
  setup.sequence = sequence();
  for (int stage = !on_cpu() ? 3 : setup.sequence ? 2 : 0; stage <= 3; ++stage) {
    for (auto [data, tensor] : {std::pair(1, 2), {2, 2}, {1, 4}}) {
      if (!on_cpu() && data != 2) continue;
      SCOPED_TRACE(testing::Message() << "stage " << stage << ", data " << data << ", tensor " << tensor);
      setup.stage = stage;
      setup.world_size = data;
      setup.tensor = tensor;
      const FleetResult parts = TrainFleet(setup);
      ExpectNear(parts.losses, whole.losses, 1e-5, "loss");
      ExpectNear(parts.grad_norms, whole.grad_norms, 1e-5, "gradient norm");
    }
  }
}

// With gradients in bands, and blocks that are computed again.
TEST_P(TensorFleetLosses, OfPackedDocumentsAreThoseOfTheWholeModel) {
  FleetSetup setup = Fleet(2, 1, 1);
  setup.packed = true;
  const FleetResult whole = TrainFleet(setup);
  setup.bucket_bytes = 4096;
  EXPECT_EQ(TrainFleet(setup).states, whole.states) << "in bands";
  setup.bucket_bytes = 0;
  setup.tensor = 2;
  setup.sequence = sequence();
  setup.checkpointing = {.segment = 1};
  const FleetResult parts = TrainFleet(setup);
  ExpectNear(parts.losses, whole.losses, 1e-5, "loss");
  ExpectNear(parts.grad_norms, whole.grad_norms, 1e-5, "gradient norm");
}

TEST_P(TensorFleetLosses, InBf16AgreeToItsRounding) {
  FleetSetup setup = Fleet(2, 1, 1);
  setup.dtype = device::DType::kBF16;
  if (on_cpu()) setup.steps = 10;
  const FleetResult whole = TrainFleet(setup);
  setup.sequence = sequence();
  for (int tensor : {2, 4}) {
    if (!on_cpu() && tensor != 2) continue;
    setup.tensor = tensor;
    const FleetResult parts = TrainFleet(setup);
    ExpectNear(parts.losses, whole.losses, 4e-3, "loss");
    ExpectNear(parts.grad_norms, whole.grad_norms, 3e-2, "gradient norm");
  }
}

TEST_P(TensorFleetLosses, KeepTheirBitsInEveryStageWithMicroBatchesAndCheckpointing) {
  FleetSetup setup = Fleet(0, 2, 2);
  setup.sequence = sequence();
  const FleetResult plain = TrainFleet(setup);
  for (int stage = on_cpu() ? 1 : 3; stage <= 3; ++stage) {
    setup.stage = stage;
    setup.checkpointing = {.segment = stage < 3 ? stage : 1};
    const FleetResult other = TrainFleet(setup);
    EXPECT_EQ(other.losses, plain.losses) << "stage " << stage;
    EXPECT_EQ(other.grad_norms, plain.grad_norms) << "stage " << stage;
    EXPECT_EQ(other.states, plain.states) << "stage " << stage;
  }
  setup.checkpointing.offload = true;
  setup.checkpointing.partition = !sequence();
  EXPECT_EQ(TrainFleet(setup).states, plain.states) << "inputs on the host";
  if (!on_cpu()) return;
  setup.placement = kStatesOnHost;  // the optimizer's states of the part
  EXPECT_EQ(TrainFleet(setup).states, plain.states);
  setup.placement = {};
  setup.micro_batches = 2;
  setup.reduce = ReduceEvery::kStep;
  const FleetResult accumulated = TrainFleet(setup);
  setup.stage = 1;
  EXPECT_EQ(TrainFleet(setup).states, accumulated.states);
}

INSTANTIATE_TEST_SUITE_P(Devices, TensorFleetLosses,
                         testing::Combine(testing::ValuesIn(UsableDevices()), testing::Bool()), [](const auto& info) {
                           return std::get<0>(info.param) + (std::get<1>(info.param) ? "_Divided" : "_Whole");
                         });

// Every rank posts what the schedule says, in its order, with the sizes of its micro-batches.
TEST(TensorFleet, PostsItsSchedule) {
  FleetSetup setup = InParts(3, 2, 2);
  setup.sequence = true;
  setup.steps = 1;
  setup.checkpointing = {.segment = 1};
  RunFleet(setup, [&](TestRank& rank) {
    const std::vector<ScheduledCollective> schedule = *StepSchedule({setup.model,
                                                                     TestOptimizer(),
                                                                     rank.spec(),
                                                                     rank.layout(),
                                                                     {.sequences = 2,
                                                                      .time = setup.model.context(),
                                                                      .checkpointing = setup.checkpointing,
                                                                      .sharing = {.sequence = setup.sequence}}});
    ZF_CHECK(rank.engine().Initialize(setup.seed).ok());
    rank.Step(1);
    ZF_CHECK(rank.Finish());
    std::vector<ScheduledCollective> posted;
    for (const collective::CollectiveRecord& one : rank.StopAndTakeRecords()) {
      posted.push_back({parallel::kDataGroup, one.operation, one.unit, one.gathered_bytes});
    }
    for (const collective::CollectiveRecord& one : rank.TakeTensorRecords()) {
      posted.push_back({parallel::kTensorGroup, one.operation, one.unit, one.gathered_bytes});
    }
    EXPECT_EQ(DescribeSchedule(posted), DescribeSchedule(schedule));
  });
}

}  // namespace
}  // namespace zerofleet::zero
