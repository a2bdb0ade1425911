// A transformer's passes over GPT-2's rows, against finite differences of its own loss; and the units it requests,
// against the dry run.
//
// The comparison with PyTorch is in tests/, since it reads reference files.
#include "worker/model/transformer.h"

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "worker/model/model_testing.h"
#include "worker/model/spec.h"

namespace zerofleet::model {
namespace {

constexpr float kOne = 1.0f;

class TransformerTest : public testing::Test {
 protected:
  TransformerTest() {
    std::vector<int64_t> units;
    for (const coordinator::UnitExtent& unit : spec_.units()) units.push_back(unit.flat_begin);
    parameters_ = std::make_unique<MemoryParameters>(std::move(units), spec_.parameters());
    std::mt19937 random(9);
    for (int32_t& token : tokens_) token = static_cast<int32_t>(random() % config_.vocab());
    activations_.resize(model_->ActivationBytes());
    scratch_.resize(model_->ScratchBytes());
    model_->SetMemory({activations_.data(), scratch_.data()});
  }

  MicroBatch Batch() const { return {2, 5, tokens_.data(), tokens_.data() + 10}; }

  double Loss() {
    double loss = 0;
    EXPECT_TRUE(model_->Evaluate(Batch(), *parameters_, *stream_, &loss).ok());
    return loss;
  }

  v1::ModelConfig config_ = TestModelConfig(2, 12, 3, 6, 17);
  ModelSpec spec_ = *ModelSpec::Create(config_);
  std::unique_ptr<device::Device> device_ = *device::CreateDevice({.kind = "cpu", .threads = 1});
  std::unique_ptr<device::Stream> stream_ = *device_->CreateStream();
  std::unique_ptr<Model> model_ = *Model::Create(config_, {device::DType::kF32, 2, 6}, *device_);
  std::unique_ptr<MemoryParameters> parameters_;
  std::vector<int32_t> tokens_ = std::vector<int32_t>(20);
  std::vector<std::byte> activations_, scratch_;
};

TEST_F(TransformerTest, AsksForUnitsAsItSays) {
  double loss = 0;
  bool turned = false;
  ASSERT_TRUE(model_->Train(Batch(), &kOne, *parameters_, *stream_, &loss, [&] { turned = true; }).ok());
  EXPECT_TRUE(turned);
  EXPECT_EQ(parameters_->uses, model_->uses().training);
  EXPECT_EQ(parameters_->uses, std::vector<int>({0, 1, 2, 3, 0, 2, 1}));
  EXPECT_EQ(parameters_->delivered, std::vector<int>({3, 2, 1, 0}));
  EXPECT_TRUE(parameters_->AllReleased());
  parameters_->uses.clear();
  EXPECT_EQ(Loss(), loss);  // the same forward, to the bit
  EXPECT_EQ(parameters_->uses, model_->uses().evaluation);
}

TEST_F(TransformerTest, GradientsMatchFiniteDifferencesTensorByTensor) {
  double loss = 0;
  ASSERT_TRUE(model_->Train(Batch(), &kOne, *parameters_, *stream_, &loss, [] {}).ok());
  for (const TensorSpec& tensor : spec_.tensors()) {
    ExpectGradientOf(tensor.name, tensor.flat_begin, tensor.elements(), *parameters_, [&] { return Loss(); });
  }
}

// A block's gradient that is written is the one that is added to zeros, rounded once; every element of it is written.
TEST_F(TransformerTest, WritesTheGradientsOfBlocks) {
  for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16}) {
    const auto model = *Model::Create(config_, {dtype, 2, 6}, *device_);
    std::vector<int64_t> units;
    for (const coordinator::UnitExtent& unit : spec_.units()) units.push_back(unit.flat_begin);
    MemoryParameters parameters(units, spec_.parameters(), dtype);
    std::vector<std::byte> activations(model->ActivationBytes()), scratch(model->ScratchBytes());
    model->SetMemory({activations.data(), scratch.data()});
    double loss = 0;
    ASSERT_TRUE(model->Train(Batch(), &kOne, parameters, *stream_, &loss, [] {}).ok());
    const std::vector<float> added = parameters.gradients();
    parameters.Write();
    ASSERT_TRUE(model->Train(Batch(), &kOne, parameters, *stream_, &loss, [] {}).ok());
    for (const TensorSpec& tensor : spec_.tensors()) {
      if (spec_.unit_kinds()[tensor.unit] != UnitKind::kBlock) continue;
      std::vector<float> want(added.begin() + tensor.flat_begin, added.begin() + tensor.flat_end);
      if (dtype == device::DType::kBF16) {
        for (float& value : want) value = device::ToFloat(device::ToBF16(value));
      }
      EXPECT_EQ(parameters.Written(tensor.flat_begin, tensor.elements()), want) << tensor.name;
    }
  }
}

TEST_F(TransformerTest, LogitsAreThoseOfTheLastPosition) {
  MicroBatch one{1, 5, tokens_.data(), nullptr};
  std::vector<float> logits(config_.vocab());
  ASSERT_TRUE(model_->Logits(one, *parameters_, *stream_, {logits.data(), device::DType::kF32}).ok());
  double denominator = 0;
  for (float logit : logits) denominator += std::exp(logit);
  double all = 0, but_last = 0;
  MicroBatch loss_of_all{1, 5, tokens_.data(), tokens_.data() + 10},
      loss_of_four{1, 4, tokens_.data(), tokens_.data() + 10};
  ASSERT_TRUE(model_->Evaluate(loss_of_all, *parameters_, *stream_, &all).ok());
  ASSERT_TRUE(model_->Evaluate(loss_of_four, *parameters_, *stream_, &but_last).ok());
  EXPECT_NEAR(all - but_last, std::log(denominator) - logits[tokens_[14]], 1e-4);
}

// Runs a prompt at once, and then token by token, with either kind of positions.
void ExpectCacheGivesTheSameLogits(v1::ModelConfig config) {
  constexpr int64_t kContext = 9;
  const ModelSpec spec = *ModelSpec::Create(config);
  std::vector<int64_t> units;
  for (const coordinator::UnitExtent& unit : spec.units()) units.push_back(unit.flat_begin);
  MemoryParameters parameters(units, spec.parameters());
  const auto device = *device::CreateDevice({.kind = "cpu", .threads = 2});
  const auto stream = *device->CreateStream();
  const auto model = *Model::Create(config, {device::DType::kF32, 1, kContext, {.segment = 1}}, *device);
  std::vector<std::byte> activations(model->ActivationBytes()), scratch(model->ScratchBytes());
  std::vector<std::byte> memory(model->CacheBytes(kContext));
  model->SetMemory({activations.data(), scratch.data()});
  const std::vector<int32_t> tokens = {3, 1, 4, 1, 5, 9, 2, 6, 5};
  std::vector<float> with(config.vocab()), without(config.vocab());
  int64_t past = 0;
  for (const int64_t piece : {4, 1, 1, 2, 1}) {
    const KeyValueCache cache{memory.data(), kContext, past};
    const MicroBatch rest{1, piece, tokens.data() + past, nullptr, &cache};
    past += piece;
    const MicroBatch whole{1, past, tokens.data(), nullptr};
    ASSERT_TRUE(model->Logits(rest, parameters, *stream, {with.data(), device::DType::kF32}).ok());
    ASSERT_TRUE(model->Logits(whole, parameters, *stream, {without.data(), device::DType::kF32}).ok());
    for (size_t i = 0; i < with.size(); ++i) ASSERT_NEAR(with[i], without[i], 1e-4) << past;
  }
}

TEST(KeyValueCacheTest, GivesGpt2TheSameLogits) { ExpectCacheGivesTheSameLogits(TestModelConfig(2, 12, 3, 9, 17)); }

TEST(KeyValueCacheTest, GivesALlamaTheSameLogits) {
  v1::ModelConfig config = TestModelConfig(2, 16, 4, 9, 17);
  config.set_family("llama");
  config.set_kv_heads(2);
  config.set_rope_theta(100);
  config.set_norm_epsilon(1e-5);
  ExpectCacheGivesTheSameLogits(config);
}

}  // namespace
}  // namespace zerofleet::model
