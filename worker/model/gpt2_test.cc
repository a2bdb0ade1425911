// GPT-2's passes against finite differences of its own loss, and what it asks for against the dry run.
//
// The comparison with PyTorch is in tests/, since it reads reference files.
#include "worker/model/gpt2.h"

#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "worker/model/model_testing.h"

namespace zerofleet::model {
namespace {

// Whole parameters and gradients in memory; records what the model asks for.
class MemoryParameters : public ParameterSource {
 public:
  MemoryParameters(const ModelSpec& spec, std::vector<float> values)
      : spec_(spec), values_(std::move(values)), gradients_(values_.size()), open_(spec.units().size()) {}

  absl::StatusOr<device::Tensor> Acquire(int unit) override {
    uses.push_back(unit);
    ++open_[unit];
    return device::Tensor{values_.data() + spec_.units()[unit].flat_begin, device::DType::kF32};
  }
  void Release(int unit) override { --open_[unit]; }
  absl::StatusOr<float*> Gradient(int unit) override { return gradients_.data() + spec_.units()[unit].flat_begin; }
  absl::Status DeliverGradient(int unit) override {
    delivered.push_back(unit);
    return absl::OkStatus();
  }

  std::vector<float>& values() { return values_; }
  const std::vector<float>& gradients() const { return gradients_; }
  bool AllReleased() const {
    return std::all_of(open_.begin(), open_.end(), [](int n) { return n == 0; });
  }
  std::vector<int> uses, delivered;

 private:
  const ModelSpec& spec_;
  std::vector<float> values_, gradients_;
  std::vector<int> open_;
};

constexpr float kOne = 1.0f;

class Gpt2Test : public testing::Test {
 protected:
  Gpt2Test() {
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0.0f, 0.3f);
    std::vector<float> values(spec_.parameters());
    for (float& value : values) value = normal(random);
    parameters_ = std::make_unique<MemoryParameters>(spec_, std::move(values));
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
  std::unique_ptr<Model> model_ = *Model::Create(config_, device::DType::kF32, *device_, 2, 6);
  std::unique_ptr<MemoryParameters> parameters_;
  std::vector<int32_t> tokens_ = std::vector<int32_t>(20);
  std::vector<std::byte> activations_, scratch_;
};

TEST_F(Gpt2Test, AsksForUnitsAsItSays) {
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

// Along a random direction of each tensor, the loss changes as the gradient says.
TEST_F(Gpt2Test, GradientsMatchFiniteDifferencesTensorByTensor) {
  double loss = 0;
  ASSERT_TRUE(model_->Train(Batch(), &kOne, *parameters_, *stream_, &loss, [] {}).ok());
  std::vector<float> gradients = parameters_->gradients(), original = parameters_->values();
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  constexpr float kStep = 2e-3f;
  for (const TensorSpec& tensor : spec_.tensors()) {
    std::vector<float> direction(tensor.elements());
    double norm = 0, expected = 0;
    for (float& d : direction) {
      d = normal(random);
      norm += d * d;
    }
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      direction[i] /= static_cast<float>(std::sqrt(norm));
      expected += direction[i] * gradients[tensor.flat_begin + i];
    }
    auto loss_at = [&](float step) {
      for (int64_t i = 0; i < tensor.elements(); ++i) {
        parameters_->values()[tensor.flat_begin + i] = original[tensor.flat_begin + i] + step * direction[i];
      }
      return Loss();
    };
    double measured = (loss_at(kStep) - loss_at(-kStep)) / (2.0 * kStep);
    loss_at(0);
    EXPECT_NEAR(measured, expected, 2e-2 + 1e-2 * std::abs(expected)) << tensor.name;
  }
}

TEST_F(Gpt2Test, LogitsAreThoseOfTheLastPosition) {
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

}  // namespace
}  // namespace zerofleet::model
