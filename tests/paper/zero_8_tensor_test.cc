// ZeRO §8 and Megatron-LM: tensor parallelism sums 12 * seq * hidden elements per block and sequence of a micro-batch,
// counting each all-reduce twice: two in the forward pass, two in its recomputation, two in the backward. To the byte.
//
// This program sends less: a block whose backward follows at once is recomputed except for its last product, and so
// without its second sum. The factor is 10 where every block keeps only its input (block), 8 where nothing is
// recomputed (none, selective), and 12 for the other blocks of a longer segment.
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/zero/fleet_testing.h"

namespace zerofleet::zero {
namespace {

constexpr int64_t kBlocks = 6, kWidth = 24, kIds = 53;

// Bytes that one rank sends to its tensor group in a step, by operation.
struct TensorSent {
  int64_t all_reduced = 0, gathered = 0;
};

TensorSent SentToTensorGroup(const FleetSetup& setup) {
  TensorSent sent;
  RunFleet(setup, [&](TestRank& rank) {
    ZF_CHECK(rank.engine().Initialize(1).ok());
    rank.Step(1);
    ZF_CHECK(rank.engine().Finish().ok());
    TensorSent mine;
    for (const auto& [operation, totals] : rank.tensor().totals()) {
      (operation == collective::Operation::kAllReduce ? mine.all_reduced : mine.gathered) += totals.bytes;
    }
    if (rank.layout().options().rank == 0 && rank.layout().part().index == 0) sent = mine;
  });
  return sent;
}

// Counts a part's share of the model, exact to the element: what the degree divides, and what every part has whole.
TEST(TensorMemory, IsThatOfThePart) {
  const v1::ModelConfig config = model::TestModelConfig(kBlocks, kWidth, 4, 10, kIds);
  const std::unique_ptr<device::Device> device = *device::CreateDevice({.kind = "cpu", .threads = 1});
  for (int tensor : {1, 2, 4}) {
    const model::ModelSpec spec = *model::ModelSpec::Create(config, {.index = 0, .count = tensor});
    const int64_t block = 12 * kWidth * kWidth / tensor + 7 * kWidth / tensor + 6 * kWidth;
    const int64_t vocab = (kIds + tensor - 1) / tensor;
    EXPECT_EQ(spec.parameters(), vocab * kWidth + 10 * kWidth + kBlocks * block + 2 * kWidth);
    // Activations that a block keeps: 4 * hidden elements whole, (4 * hidden + 2 * intermediate) / tensor, and in fp32
    // the norms' statistics and attention's, of each head. 16 tokens, so that every matrix ends on 64 bytes.
    constexpr int64_t kTokens = 16;
    const auto bytes = [&](int64_t layers) {
      return (*model::Model::Create(model::TestModelConfig(layers, kWidth, 4, 10, kIds),
                                    {device::DType::kF32, 2, kTokens / 2, {}, {.parts = tensor}}, *device))
          ->ActivationBytes();
    };
    EXPECT_EQ(bytes(3) - bytes(2), 4 * kTokens * (4 * kWidth + 12 * kWidth / tensor + 4 + 4 / tensor)) << tensor;
  }
}

TEST(TensorTraffic, IsThatOfThePaperLessWhatIsNotComputedAgain) {
  struct Case {
    model::Checkpointing checkpointing;
    int64_t times;  // in units of seq * hidden, summed over the blocks
  };
  const std::vector<Case> cases = {
      {{}, 8 * kBlocks},
      {{.selective = true}, 8 * kBlocks},
      {{.segment = 1}, 10 * (kBlocks - 1) + 8},   // the last block's activations are still there
      {{.segment = 3}, 12 * 2 + 10 * 1 + 8 * 3},  // two blocks of the first segment fully, its last without one sum
      {{.segment = kBlocks}, 8 * kBlocks},
  };
  for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
    for (int tensor : {2, 4}) {
      for (const Case& one : cases) {
        FleetSetup setup;
        setup.model = model::TestModelConfig(kBlocks, kWidth, 4, 10, kIds);
        setup.tensor = tensor;
        setup.dtype = dtype;
        setup.global_sequences = 2;
        setup.checkpointing = one.checkpointing;
        SCOPED_TRACE(absl::StrCat(tensor, " ranks, segments of ", one.checkpointing.segment));
        const int64_t tokens = setup.global_sequences * setup.model.context(), others = tensor - 1;
        // Outside the blocks: the embedding's sum, and that of the gradient of the logits' input.
        const int64_t elements = (one.times + 2 * 2) * tokens * kWidth;
        const TensorSent sent = SentToTensorGroup(setup);
        EXPECT_EQ(sent.all_reduced, elements * device::DTypeBytes(dtype) * others / tensor);
        // The parts of the softmax, 12 bytes per token, and the step's scalars.
        EXPECT_EQ(sent.gathered, (12 * tokens + 32) * others);
        EXPECT_EQ(PlannedTensorBytes(setup), sent.all_reduced + sent.gathered) << "as `zerofleet plan` says";
      }
    }
  }
}

}  // namespace
}  // namespace zerofleet::zero
