// Small configurations for tests, parameters in memory, and a check of gradients by finite differences.
#ifndef ZEROFLEET_WORKER_MODEL_MODEL_TESTING_H_
#define ZEROFLEET_WORKER_MODEL_MODEL_TESTING_H_

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/model/parameter_source.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::model {

inline v1::ModelConfig TestModelConfig(int64_t layers, int64_t hidden, int64_t heads, int64_t context, int64_t vocab) {
  v1::ModelConfig config;
  config.set_family("gpt2");
  config.set_layers(layers);
  config.set_hidden(hidden);
  config.set_heads(heads);
  config.set_kv_heads(heads);
  config.set_intermediate(4 * hidden);
  config.set_context(context);
  config.set_vocab(vocab);
  return config;
}

// Whole fp32 parameters and gradients in memory; records which units the model uses and delivers.
class MemoryParameters : public ParameterSource {
 public:
  // `units` are the offsets at which units begin.
  MemoryParameters(std::vector<int64_t> units, int64_t parameters)
      : units_(std::move(units)), values_(parameters), gradients_(parameters), open_(units_.size()) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0.0f, 0.3f);
    for (float& value : values_) value = normal(random);
  }

  absl::StatusOr<device::Tensor> Acquire(int unit) override {
    uses.push_back(unit);
    ++open_[unit];
    return device::Tensor{values_.data() + units_[unit], device::DType::kF32};
  }
  void Release(int unit) override { --open_[unit]; }
  absl::StatusOr<float*> Gradient(int unit) override { return gradients_.data() + units_[unit]; }
  absl::Status DeliverGradient(int unit) override {
    delivered.push_back(unit);
    return absl::OkStatus();
  }

  std::vector<float>& values() { return values_; }
  const std::vector<float>& gradients() const { return gradients_; }
  bool AllReleased() const { return open_ == std::vector<int>(open_.size()); }
  std::vector<int> uses, delivered;

 private:
  const std::vector<int64_t> units_;
  std::vector<float> values_, gradients_;
  std::vector<int> open_;
};

// Expects the loss to change along a random direction in the `count` parameters from `first` as `gradients` say.
inline void ExpectGradientOf(const std::string& name, int64_t first, int64_t count, MemoryParameters& parameters,
                             const std::function<double()>& loss) {
  constexpr float kStep = 2e-3f;
  std::mt19937 random(static_cast<uint32_t>(first) + 11);
  std::normal_distribution<float> normal;
  std::vector<float> direction(count);
  double norm = 0, expected = 0;
  for (float& d : direction) {
    d = normal(random);
    norm += d * d;
  }
  for (int64_t i = 0; i < count; ++i) {
    direction[i] /= static_cast<float>(std::sqrt(norm));
    expected += direction[i] * parameters.gradients()[first + i];
  }
  const std::vector<float> original = parameters.values();
  const auto loss_at = [&](float step) {
    for (int64_t i = 0; i < count; ++i) parameters.values()[first + i] = original[first + i] + step * direction[i];
    return loss();
  };
  const double measured = (loss_at(kStep) - loss_at(-kStep)) / (2.0 * kStep);
  parameters.values() = original;
  EXPECT_NEAR(measured, expected, 2e-2 + 1e-2 * std::abs(expected)) << name;
}

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_MODEL_TESTING_H_
