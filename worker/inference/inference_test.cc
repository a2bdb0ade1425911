// The next token with keys and values that are kept and without; the integration tests in tests/ cover real models.
#include "worker/inference/inference.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "gtest/gtest.h"
#include "worker/checkpoint/test_support.h"

namespace zerofleet::inference {
namespace {

TEST(InferenceModel, AMissingCheckpointIsNamed) {
  absl::Status status = InferenceModel::Load("no/such/step", {.kind = "cpu", .threads = 1}, {}).status();
  EXPECT_NE(std::string(status.message()).find("no/such/step"), std::string::npos);
}

TEST(FirstSeen, MovesByAQuarterOfTheContext) {
  EXPECT_EQ(FirstSeen(8, 8), 0);
  EXPECT_EQ(FirstSeen(9, 8), 2);
  EXPECT_EQ(FirstSeen(10, 8), 2);
  EXPECT_EQ(FirstSeen(11, 8), 4);
  EXPECT_EQ(FirstSeen(5, 3), 2);
}

class NextTokenTest : public checkpoint::CheckpointTest {
 protected:
  void SetUp() override {
    CheckpointTest::SetUp();
    v1::CheckpointManifest manifest = Manifest(3, 1);
    const auto ranges = coordinator::PartitionMap(SmallSpec().units(), 1).StoredRanges(0);
    std::vector<std::vector<float>> states;
    for (size_t v = 0; v < optim::Optimizers().front().vectors.size(); ++v) states.push_back(State(v, ranges));
    std::mt19937 random(5);
    std::normal_distribution<float> normal(0.0f, 0.4f);
    for (float& weight : states.front()) weight = normal(random);
    step_dir_ = checkpoint::StepDirectory(directory_, 3);
    auto file = checkpoint::WriteShard(checkpoint::PartialDirectory(step_dir_, manifest.generation()), 0, ranges,
                                       optim::Optimizers().front(), {states.begin(), states.end()});
    ASSERT_TRUE(file.ok()) << file.status();
    *manifest.add_files() = *file;
    ASSERT_TRUE(checkpoint::CommitCheckpoint(step_dir_, manifest).ok());
  }

  std::unique_ptr<InferenceModel> Load(LoadOptions options) const {
    return InferenceModel::Load(step_dir_, {.kind = "cpu", .threads = 2}, options).value();
  }

  static std::vector<int32_t> Greedy(InferenceModel& model, std::vector<int32_t> tokens, int count) {
    for (int i = 0; i < count; ++i) {
      const std::vector<float> logits = model.NextLogits(tokens).value();
      tokens.push_back(static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    }
    return tokens;
  }

  std::string step_dir_;
};

// Several times the context of 7, so the first tokens are left behind.
TEST_F(NextTokenTest, GreedyTextIsTheSameWithAndWithoutACache) {
  for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
    const auto with = Load({.dtype = dtype}), without = Load({.dtype = dtype, .keeps_keys_and_values = false});
    for (const std::vector<int32_t>& prompt : {std::vector<int32_t>{1}, {4, 2, 9}, {5, 3, 8, 1, 2, 7, 6, 4, 11, 30}}) {
      EXPECT_EQ(Greedy(*with, prompt, 25), Greedy(*without, prompt, 25)) << device::DTypeName(dtype);
    }
  }
}

TEST_F(NextTokenTest, WhatBeginsAlikeIsKeptAndWhatDiffersIsNot) {
  const auto kept = Load({}), fresh = Load({.keeps_keys_and_values = false});
  for (const std::vector<int32_t>& tokens :
       {std::vector<int32_t>{3, 1, 4, 1, 5}, {3, 1, 4, 2}, {3, 1, 4, 2}, {3}, {9, 1, 4}}) {
    const auto got = kept->NextLogits(tokens).value(), want = fresh->NextLogits(tokens).value();
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-4) << tokens.size();
  }
}

TEST_F(NextTokenTest, TokensBeyondTheVocabularyAreRefused) {
  const auto model = Load({});
  EXPECT_TRUE(model->NextLogits(std::vector<int32_t>{1, 2}).ok());
  for (const std::vector<int32_t>& tokens : {std::vector<int32_t>{}, {1, 31}, {1, 2, -1}, {31}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(model->NextLogits(tokens).status()));
  }
  EXPECT_TRUE(model->NextLogits(std::vector<int32_t>{1, 2, 3}).ok());
}

}  // namespace
}  // namespace zerofleet::inference
