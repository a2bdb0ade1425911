// Gradients of adapters, beside trained and beside frozen weights; and adapters give the same function as weights to
// which their product was added.
#include "worker/model/low_rank.h"

#include <cmath>
#include <cstddef>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "worker/model/model.h"
#include "worker/model/model_testing.h"
#include "worker/model/spec.h"

namespace zerofleet::model {
namespace {

v1::ModelConfig Adapted(bool llama) {
  v1::ModelConfig config = TestModelConfig(2, 16, 4, 7, 17);
  if (llama) {
    config.set_family("llama");
    config.set_kv_heads(2);
    config.set_intermediate(20);
    config.set_rope_theta(100);
    config.set_norm_epsilon(1e-5);
    config.set_qkv_bias(true);
  }
  config.mutable_lora()->set_rank(3);
  config.mutable_lora()->set_alpha(4.5);
  return config;
}

std::vector<int64_t> UnitBegins(const ModelSpec& spec) {
  std::vector<int64_t> begins;
  for (const coordinator::UnitExtent& unit : spec.units()) begins.push_back(unit.flat_begin);
  return begins;
}

// Units before `first` are frozen.
class PartlyFrozen : public MemoryParameters {
 public:
  PartlyFrozen(const ModelSpec& spec, int first)
      : MemoryParameters(UnitBegins(spec), spec.parameters()), first_(first) {}
  bool Trains(int unit) const override { return unit >= first_; }

 private:
  const int first_;
};

struct Built {
  Built(const v1::ModelConfig& config, const Checkpointing& checkpointing)
      : device(*device::CreateDevice({.kind = "cpu", .threads = 2})),
        stream(*device->CreateStream()),
        model(*Model::Create(config,
                             {.dtype = device::DType::kF32, .sequences = 2, .time = 7, .checkpointing = checkpointing},
                             *device)),
        activations(model->ActivationBytes()),
        scratch(model->ScratchBytes()),
        tokens(20) {
    model->SetMemory({activations.data(), scratch.data()});
    std::mt19937 random(3);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % config.vocab());
  }
  MicroBatch Batch() const { return {2, 5, tokens.data(), tokens.data() + 10}; }
  double Loss(ParameterSource& parameters) {
    double loss = 0;
    EXPECT_TRUE(model->Evaluate(Batch(), parameters, *stream, &loss).ok());
    return loss;
  }

  std::unique_ptr<device::Device> device;
  std::unique_ptr<device::Stream> stream;
  std::unique_ptr<Model> model;
  std::vector<std::byte> activations, scratch;
  std::vector<int32_t> tokens;
};

class AdapterGradients : public testing::TestWithParam<bool> {};

TEST_P(AdapterGradients, AreThoseOfTheLoss) {
  const v1::ModelConfig config = Adapted(GetParam());
  const ModelSpec spec = *ModelSpec::Create(config);
  for (const Checkpointing& checkpointing : {Checkpointing{}, Checkpointing{.segment = 1}}) {
    for (const int first : {0, spec.passed_units()}) {
      Built built(config, checkpointing);
      PartlyFrozen parameters(spec, first);
      constexpr float kUnscaled = 1.0f;
      double loss = 0;
      ASSERT_TRUE(built.model->Train(built.Batch(), &kUnscaled, parameters, *built.stream, &loss, [] {}).ok());
      EXPECT_TRUE(parameters.AllReleased());
      EXPECT_EQ(built.Loss(parameters), loss);
      for (const TensorSpec& tensor : spec.tensors()) {
        if (tensor.unit < first) continue;
        ExpectGradientOf(tensor.name, tensor.flat_begin, tensor.elements(), parameters,
                         [&] { return built.Loss(parameters); });
      }
    }
  }
}

// W + alpha / rank * B A in place of W, without an adapter, is the same function.
TEST_P(AdapterGradients, AreOfAFunctionThatCanBeMerged) {
  const v1::ModelConfig config = Adapted(GetParam());
  v1::ModelConfig without = config;
  without.clear_lora();
  const ModelSpec spec = *ModelSpec::Create(config), plain = *ModelSpec::Create(without);
  Built adapted(config, {}), merged(without, {});
  PartlyFrozen parameters(spec, 0), whole(plain, 0);
  std::copy_n(parameters.values().begin(), plain.parameters(), whole.values().begin());
  const auto find = [&](const std::string& name) {
    for (const TensorSpec& tensor : spec.tensors()) {
      if (tensor.name == name) return &tensor;
    }
    return static_cast<const TensorSpec*>(nullptr);
  };
  int adapters = 0;
  for (const TensorSpec& weight : plain.tensors()) {
    if (!weight.projects) continue;
    const std::string name = weight.name.substr(0, weight.name.size() - std::string(".weight").size());
    const TensorSpec *const a = find(name + ".lora_A.weight"), *const b = find(name + ".lora_B.weight");
    ASSERT_TRUE(a != nullptr && b != nullptr) << name;
    ++adapters;
    const int64_t columns = weight.shape[1];
    for (int64_t i = 0; i < weight.elements(); ++i) {
      for (int64_t r = 0; r < 3; ++r) {
        whole.values()[weight.flat_begin + i] += 1.5f * parameters.values()[b->flat_begin + i / columns * 3 + r] *
                                                 parameters.values()[a->flat_begin + r * columns + i % columns];
      }
    }
  }
  EXPECT_EQ(adapters, GetParam() ? 14 : 8);
  EXPECT_NEAR(adapted.Loss(parameters), merged.Loss(whole), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Families, AdapterGradients, testing::Bool());

// The backward does not reach frozen units at the model's beginning: the second block's is the last to run.
TEST(FrozenModel, TheBackwardEndsWhereNothingIsTrained) {
  v1::ModelConfig config = TestModelConfig(3, 16, 4, 7, 17);
  for (const char* pattern : {"wte.*", "wpe.*", "h.0.*"}) config.add_freeze(pattern);
  const ModelSpec spec = *ModelSpec::Create(config);
  EXPECT_EQ(spec.FirstTrained(), 2);
  Built built(config, {});
  PartlyFrozen parameters(spec, 2);
  constexpr float kUnscaled = 1.0f;
  double loss = 0;
  ASSERT_TRUE(built.model->Train(built.Batch(), &kUnscaled, parameters, *built.stream, &loss, [] {}).ok());
  EXPECT_EQ(parameters.uses, built.model->uses().training);
  EXPECT_EQ(parameters.uses, (std::vector<int>{0, 1, 2, 3, 4, 0, 3, 2}));
  EXPECT_EQ(parameters.delivered, (std::vector<int>{4, 3, 2}));
  for (const TensorSpec& tensor : spec.tensors()) {
    if (tensor.unit < 2) continue;
    ExpectGradientOf(tensor.name, tensor.flat_begin, tensor.elements(), parameters,
                     [&] { return built.Loss(parameters); });
  }
  v1::ModelConfig trained = config;
  trained.clear_freeze();
  EXPECT_LT(spec.FlopsPerToken(), ModelSpec::Create(trained)->FlopsPerToken());
}

}  // namespace
}  // namespace zerofleet::model
