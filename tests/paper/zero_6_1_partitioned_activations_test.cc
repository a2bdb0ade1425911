// ZeRO §6.1 and §8: partitioned activation checkpoints (P_a) divide the kept inputs by the tensor degree, for one more
// all-gather per checkpoint, under 10% of what tensor parallelism sends. P_a+cpu leaves almost none of them on the
// device, for copies to the host and back.
//
// Inputs that the forward has left where the backward needs them are not kept a second time: the last segment's (P_a),
// or the last two's (P_a+cpu). So a model of L blocks gathers L - 1 or L - 2 checkpoints.
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/paper/measured_step.h"
#include "worker/zero/fleet_testing.h"

namespace zerofleet::zero {
namespace {

using ::testing::ElementsAreArray;

constexpr int64_t kDepth = 6, kInputWidth = 24;

FleetSetup PartitionedFleet(int tensor, device::DType dtype, const model::Checkpointing& checkpointing) {
  return {.model = model::TestModelConfig(kDepth, kInputWidth, 4, 10, 53),
          .dtype = dtype,
          .global_sequences = 2,
          .checkpointing = checkpointing,
          .tensor = tensor};
}

std::string NameOf(const FleetSetup& setup) {
  return absl::StrCat("stage ", setup.stage, ", tensor degree ", setup.tensor, ", ", device::DTypeName(setup.dtype),
                      ", segments of ", setup.checkpointing.segment,
                      setup.checkpointing.partition ? ", partitioned" : "",
                      setup.checkpointing.offload ? ", offloaded" : "");
}

class PartitionedActivations : public testing::TestWithParam<std::tuple<int, device::DType>> {};

TEST_P(PartitionedActivations, GiveTheSameBitsInEveryStage) {
  const auto& [tensor, dtype] = GetParam();
  for (const int64_t segment : {1, 2, 4}) {
    FleetSetup setup = PartitionedFleet(tensor, dtype, {.segment = segment});
    setup.world_size = 2;
    setup.global_sequences = 4;
    setup.steps = segment > 1 ? 3 : 6;
    const FleetResult plain = TrainFleet(setup);
    for (setup.stage = segment == 1 ? 0 : 3; setup.stage <= 3; ++setup.stage) {
      for (const auto& [partition, offload] : {std::pair{true, false}, {false, true}, {true, true}}) {
        setup.checkpointing.partition = partition;
        setup.checkpointing.offload = offload;
        SCOPED_TRACE(NameOf(setup));
        const FleetResult result = TrainFleet(setup);
        EXPECT_THAT(result.losses, ElementsAreArray(plain.losses));
        EXPECT_THAT(result.grad_norms, ElementsAreArray(plain.grad_norms));
        EXPECT_EQ(result.states, plain.states);
      }
    }
  }
}

// Micro-batches use the same places one after another.
TEST_P(PartitionedActivations, GiveTheSameBitsWithSeveralMicroBatches) {
  const auto& [tensor, dtype] = GetParam();
  FleetSetup setup = PartitionedFleet(tensor, dtype, {.segment = 1});
  setup.global_sequences = 3;
  setup.micro_batches = 3;
  const FleetResult plain = TrainFleet(setup);
  setup.checkpointing.partition = setup.checkpointing.offload = true;
  EXPECT_EQ(TrainFleet(setup).states, plain.states);
}

INSTANTIATE_TEST_SUITE_P(Fleets, PartitionedActivations,
                         testing::Combine(testing::Values(1, 2, 4),
                                          testing::Values(device::DType::kF32, device::DType::kBF16)),
                         [](const auto& info) {
                           return absl::StrCat("tensor_", std::get<0>(info.param), "_",
                                               device::DTypeName(std::get<1>(info.param)));
                         });

// Exact to the byte. There are 32 tokens of 24 elements, so that every part of an input ends on 64 bytes.
TEST(PartitionedMemoryAndTraffic, AreThoseOfTheFormulas) {
  for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
    for (const int tensor : {1, 2, 4}) {
      FleetSetup setup = PartitionedFleet(tensor, dtype, {.segment = 1});
      setup.model = model::TestModelConfig(kDepth, kInputWidth, 4, 16, 53);
      const int64_t input = setup.global_sequences * 16 * kInputWidth * device::DTypeBytes(dtype);
      const MeasuredStep whole = MeasureStep(setup);
      const int64_t rest = whole.device - kDepth * input;  // memory that is not for checkpoints
      const int64_t gather = input / tensor * (tensor - 1);
      SCOPED_TRACE(NameOf(setup));
      EXPECT_EQ(whole.host, 0);
      if (tensor > 1) {
        setup.checkpointing = {.segment = 1, .partition = true};
        const MeasuredStep split = MeasureStep(setup);
        EXPECT_EQ(split.device - rest, input + (kDepth - 1) * input / tensor);
        EXPECT_EQ(split.host, 0);
        EXPECT_EQ(split.tensor_bytes - whole.tensor_bytes, (kDepth - 1) * gather);
        EXPECT_EQ(split.tensor_bytes, PlannedTensorBytes(setup)) << "as `zerofleet plan` says";
        EXPECT_EQ(split.link.to_host.bytes, 0);
        EXPECT_LT(10 * (split.tensor_bytes - whole.tensor_bytes), whole.tensor_bytes) << "under 10%";
      }
      for (const bool partition : {false, true}) {
        setup.checkpointing = {.segment = 1, .partition = partition, .offload = true};
        const MeasuredStep away = MeasureStep(setup);
        const int64_t part = partition ? input / tensor : input, gathers = partition ? (kDepth - 2) * gather : 0;
        EXPECT_EQ(away.device - rest, 2 * input) << "two checkpoints, whatever the number of blocks";
        EXPECT_EQ(away.host, (kDepth - 2) * part);
        EXPECT_EQ(away.link.to_host.bytes, (kDepth - 2) * part);
        EXPECT_EQ(away.link.to_device.bytes, (kDepth - 2) * part) << "there and back: twice what is kept";
        EXPECT_EQ(away.tensor_bytes - whole.tensor_bytes, gathers);
        EXPECT_EQ(away.tensor_bytes, tensor == 1 ? 0 : PlannedTensorBytes(setup));
      }
    }
  }
}

}  // namespace
}  // namespace zerofleet::zero
