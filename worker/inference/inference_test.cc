// The next token with and without kept keys and values; the integration tests in tests/ cover real models.
#include "worker/inference/inference.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "gtest/gtest.h"
#include "worker/checkpoint/tokenizer_files.h"
#include "worker/data/fingerprint.h"
#include "worker/data/format.h"
#include "worker/inference/inference_testing.h"

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

class NextTokenTest : public RandomModelTest {
 protected:
  void SetUp() override {
    RandomModelTest::SetUp();
    step_dir_ = SaveModel(31);
  }
  std::unique_ptr<InferenceModel> Load(const LoadOptions& options) const { return LoadModel(step_dir_, options); }

  static std::vector<int32_t> Greedy(InferenceModel& model, std::vector<int32_t> tokens, int count) {
    for (int i = 0; i < count; ++i) {
      const std::vector<float> logits = model.NextLogits(tokens).value();
      tokens.push_back(static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    }
    return tokens;
  }

  std::string step_dir_;
};

// The text is several times the context of 7, so its first tokens are left behind.
TEST_F(NextTokenTest, GreedyTextIsTheSameWithAndWithoutACache) {
  for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
    const auto with = Load({.dtype = dtype}), without = Load({.dtype = dtype, .keeps_keys_and_values = false});
    for (const std::vector<int32_t>& prompt : {std::vector<int32_t>{1}, {4, 2, 9}, {5, 3, 8, 1, 2, 7, 6, 4, 11, 30}}) {
      EXPECT_EQ(Greedy(*with, prompt, 25), Greedy(*without, prompt, 25)) << device::DTypeName(dtype);
    }
  }
}

TEST_F(NextTokenTest, EveryDeviceKeepsKeysAndValues) {
  const std::vector<int32_t> prompt = {4, 2, 9}, want = Greedy(*Load({}), prompt, 7);
  for (const std::string& device : device::DeviceKindsBuilt()) {
    if (!device::ResolveDeviceKind(device).ok()) continue;
    for (const bool keeps : {true, false}) {
      const auto model = LoadModel(step_dir_, {.keeps_keys_and_values = keeps}, device);
      EXPECT_EQ(Greedy(*model, prompt, 7), want) << device << keeps;
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

// What a run has read is known by its files' names, not by that of their directory.
TEST_F(RandomModelTest, ADirectoryOfTokensIsNoText) {
  const auto model = LoadModel(SaveModel(53,
                                         [](v1::CheckpointManifest& manifest) {
                                           manifest.mutable_config()->mutable_data()->add_train("shards");
                                           data::FileLister files;
                                           files.Add("shards/a.u32", 40, std::string(32, 'f'));
                                           *manifest.mutable_data()->mutable_train() = files.Done();
                                         }),
                               {});
  EXPECT_EQ(data::TrainedFormat(model->data()), "tokens_u32");
}

// Packed documents, which a checkpoint's tokenizer tells apart.
TEST_F(RandomModelTest, EveryDeviceMeasuresPackedDocuments) {
  const std::string tokenizer = JoinPath(directory_, "tokenizer.json"), tokens = JoinPath(directory_, "tokens.u16");
  ASSERT_TRUE(WriteFileAtomically(
                  tokenizer,
                  R"({"added_tokens":[{"id":4,"content":"</s>","single_word":false,"lstrip":false,"rstrip":false,)"
                  R"("normalized":false,"special":true}],"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})")
                  .ok());
  std::string ids;
  for (int i = 0; i < 100; ++i) ids += {static_cast<char>(i % 3 == 0 ? 4 : i % 31), '\0'};
  ASSERT_TRUE(WriteFileAtomically(tokens, ids).ok());
  const auto loss_on = [&](const std::string& device, bool packing) {
    const std::string step_dir = SaveModel(31, [&](v1::CheckpointManifest& manifest) {
      manifest.mutable_config()->mutable_data()->set_packing(packing);
      const auto files = checkpoint::ReadTokenizerFiles(tokenizer).value();
      const std::string partial =
          checkpoint::PartialDirectory(checkpoint::StepDirectory(directory_, 3), manifest.generation());
      EXPECT_TRUE(checkpoint::WriteTokenizerFiles(partial, files).ok());
      checkpoint::DescribeTokenizer(files, &manifest);
    });
    const auto loss = LoadModel(step_dir, {.dtype = device::DType::kF32}, device)->MeanLoss({"--data", tokens}).value();
    EXPECT_TRUE(RemoveTree(step_dir).ok());
    return loss;
  };
  const auto packed = loss_on("cpu", true), plain = loss_on("cpu", false);
  EXPECT_LT(packed.tokens, plain.tokens);
  for (const std::string& device : device::DeviceKindsBuilt()) {
    if (!device::ResolveDeviceKind(device).ok()) continue;
    const auto loss = loss_on(device, true);
    EXPECT_EQ(loss.tokens, packed.tokens) << device;
    EXPECT_NEAR(loss.mean, packed.mean, 1e-4) << device;
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

// The same holds beyond the context.
TEST_F(NextTokenTest, AContinuationsLossIsThatOfItsTokens) {
  const std::vector<int32_t> all = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
  const auto fresh = Load({.keeps_keys_and_values = false}), kept = Load({});
  for (const size_t before : {1u, 3u, 9u, 15u}) {
    double want = 0;
    for (size_t i = before; i < all.size(); ++i) {
      const std::vector<float> logits = fresh->NextLogits(std::span(all).first(i)).value();
      double sum = 0;
      for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
      want += std::log(sum) - static_cast<double>(logits[all[i]]);
    }
    const std::span<const int32_t> tokens = all;
    EXPECT_NEAR(fresh->ContinuationLoss(tokens.first(before), tokens.subspan(before)).value(), want, 1e-3) << before;
    EXPECT_NEAR(kept->ContinuationLoss(tokens.first(before), tokens.subspan(before)).value(), want, 1e-3) << before;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(kept->ContinuationLoss({}, all).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(kept->ContinuationLoss(all, std::vector<int32_t>{31}).status()));
}

}  // namespace
}  // namespace zerofleet::inference
