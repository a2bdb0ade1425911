// Korthikanti et al. 2022, §4.2: with sequence parallelism every activation of a block is divided by the tensor degree,
// and tensor parallelism's all-reduces become reduce-scatters and all-gathers of the same bytes.
//
// The paper keeps 1/t of a norm's output and gathers it again in the backward. With `none` this program keeps the
// gathered output, and sends exactly the bytes of tensor parallelism alone; `selective` keeps no output of a norm and
// is the paper's scheme: everything is divided, with two more gathers per block. The gradients of the norms'
// parameters, which all ranks share but each computes from its own tokens, are summed in addition: 4 * hidden fp32
// elements per block and micro-batch.
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/paper/measured_step.h"
#include "worker/zero/fleet_testing.h"

namespace zerofleet::zero {
namespace {

constexpr int64_t kStreamLayers = 6, kStreamWidth = 24, kStreamContext = 16, kStreamSequences = 2;
constexpr int64_t kStreamTokens =
    kStreamSequences * kStreamContext;  // every matrix, and every part of it, ends on 64 bytes

FleetSetup SequenceFleet(int tensor, device::DType dtype, bool sequence, const model::Checkpointing& checkpointing) {
  return {.model = model::TestModelConfig(kStreamLayers, kStreamWidth, 4, kStreamContext, 53),
          .dtype = dtype,
          .global_sequences = kStreamSequences,
          .checkpointing = checkpointing,
          .tensor = tensor,
          .sequence = sequence};
}

TEST(SequenceTraffic, IsThatOfTensorParallelismAndTheNormsGradients) {
  struct Case {
    model::Checkpointing checkpointing;
    int64_t gathers;  // gathers of tokens * hidden elements beyond those that tensor parallelism alone makes in halves
                      // of its sums
  };
  const std::vector<Case> cases = {
      {{}, 0},
      {{.selective = true}, 2 * kStreamLayers},  // the output of each norm
      {{.segment = 1},
       kStreamLayers - 1},  // the last norm's, without the sum behind it, for each block that is recomputed
      {{.segment = 3}, 1},  // or for each segment
      {{.segment = 1, .offload = true}, kStreamLayers - 1},
  };
  for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
    for (int tensor : {2, 4}) {
      for (const Case& one : cases) {
        SCOPED_TRACE(absl::StrCat(tensor, " ranks, ", device::DTypeName(dtype), ", segments of ",
                                  one.checkpointing.segment, one.checkpointing.selective ? ", selective" : ""));
        model::Checkpointing alone = one.checkpointing;
        alone.offload = false;
        const int64_t others = tensor - 1,
                      half = kStreamTokens * kStreamWidth * device::DTypeBytes(dtype) / tensor * others;
        const int64_t norms = 2 * (4 * kStreamLayers + 2) * kStreamWidth * 4 / tensor * others;
        const FleetSetup setup = SequenceFleet(tensor, dtype, /*sequence=*/true, one.checkpointing);
        const int64_t sent = MeasureStep(setup).tensor_bytes;
        EXPECT_EQ(sent,
                  MeasureStep(SequenceFleet(tensor, dtype, false, alone)).tensor_bytes + one.gathers * half + norms);
        EXPECT_EQ(sent, PlannedTensorBytes(setup)) << "as `zerofleet plan` says";
      }
    }
  }
}

// With P_a, tensor parallelism needs the same gathers to divide the inputs that `block` keeps.
TEST(SequenceTraffic, OfBlocksComputedAgainIsThatOfPartitionedInputs) {
  const auto sent = [](bool sequence, bool partition) {
    return MeasureStep(SequenceFleet(2, device::DType::kF32, sequence, {.segment = 1, .partition = partition}))
        .tensor_bytes;
  };
  EXPECT_EQ(sent(true, false) - sent(false, true), (4 * kStreamLayers + 2) * kStreamWidth * 4);
}

// Elements per block and token: input, middle 2 * hidden, qkv and attention 4 * hidden, the MLP's 8 * hidden, each
// divided; the norms' outputs 2 * hidden, kept gathered. In fp32 4 statistics of norms and one per head, divided.
TEST(SequenceMemory, IsDividedByTheTensorDegree) {
  for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
    const int64_t bytes = device::DTypeBytes(dtype);
    const std::unique_ptr<device::Device> device = *device::CreateDevice({.kind = "cpu", .threads = 1});
    for (int tensor : {2, 4}) {
      const auto of_block = [&](const model::Checkpointing& checkpointing) {
        const auto activations = [&](int64_t layers) {
          const auto model = *model::Model::Create(
              model::TestModelConfig(layers, kStreamWidth, 4, kStreamContext * 8, 53),
              {dtype, kStreamSequences, kStreamContext * 8, checkpointing, {.parts = tensor, .sequence = true}},
              *device);
          return model->ActivationBytes();
        };
        return (activations(3) - activations(2)) / 8;
      };
      const int64_t hidden = kStreamWidth * bytes;
      EXPECT_EQ(of_block({}), kStreamTokens * (2 * hidden + (14 * hidden + 4 * (4 + 4)) / tensor)) << tensor;
      EXPECT_EQ(of_block({.selective = true}), kStreamTokens * (10 * hidden + 4 * 4) / tensor) << tensor;
      EXPECT_EQ(of_block({.segment = 1}), kStreamTokens * hidden / tensor) << tensor;
    }
  }
}

// The offload half of P_a+cpu works with it: what leaves the device is the part that a rank has.
TEST(SequenceMemory, LeavesTheDeviceWithOffload) {
  for (int tensor : {2, 4}) {
    const MeasuredStep kept = MeasureStep(SequenceFleet(tensor, device::DType::kF32, true, {.segment = 1}));
    const MeasuredStep away =
        MeasureStep(SequenceFleet(tensor, device::DType::kF32, true, {.segment = 1, .offload = true}));
    const int64_t part = kStreamTokens * kStreamWidth * 4 / tensor;
    EXPECT_EQ(kept.device - away.device, (kStreamLayers - 2) * part);
    EXPECT_EQ(away.host, (kStreamLayers - 2) * part);
  }
}

TEST(SequenceLosses, KeepTheirBitsWhateverIsKept) {
  for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
    FleetSetup setup = SequenceFleet(2, dtype, /*sequence=*/true, {});
    setup.steps = 30;
    const FleetResult plain = TrainFleet(setup);
    for (const model::Checkpointing& checkpointing :
         {model::Checkpointing{.selective = true}, {.segment = 1}, {.segment = 4}, {.segment = 1, .offload = true}}) {
      setup.checkpointing = checkpointing;
      setup.stage = (setup.stage + 1) % 4;
      const FleetResult other = TrainFleet(setup);
      EXPECT_EQ(other.losses, plain.losses);
      EXPECT_EQ(other.states, plain.states);
    }
  }
}

}  // namespace
}  // namespace zerofleet::zero
