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

// Whole parameters and fp32 gradients in memory; records which units the model uses and delivers.
class MemoryParameters : public ParameterSource {
 public:
  // `units` are the offsets at which units begin; the model gets the parameters in `dtype`, fp32 or bf16, of which the
  // latter are those that are here when it is made.
  MemoryParameters(std::vector<int64_t> units, int64_t parameters, device::DType dtype = device::DType::kF32)
      : units_(std::move(units)), values_(parameters), gradients_(parameters), open_(units_.size()), dtype_(dtype) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0.0f, 0.3f);
    for (float& value : values_) value = normal(random);
    for (const float value : values_) halves_.push_back(device::ToBF16(value));
  }

  // From now on gradients that are made once are written, in the parameters' type, where NaNs are.
  void Write() {
    written_floats_.assign(values_.size(), NAN);
    written_halves_.assign(values_.size(), device::ToBF16(NAN));
  }
  // What was written of [begin, begin + count).
  std::vector<float> Written(int64_t begin, int64_t count) const {
    std::vector<float> values(written_floats_.begin() + begin, written_floats_.begin() + begin + count);
    if (dtype_ == device::DType::kF32) return values;
    for (int64_t i = 0; i < count; ++i) values[i] = device::ToFloat(written_halves_[begin + i]);
    return values;
  }

  absl::StatusOr<device::Tensor> Acquire(int unit) override {
    uses.push_back(unit);
    ++open_[unit];
    if (dtype_ == device::DType::kBF16) return device::Tensor{halves_.data() + units_[unit], dtype_};
    return device::Tensor{values_.data() + units_[unit], dtype_};
  }
  void Release(int unit) override { --open_[unit]; }
  absl::StatusOr<float*> Gradient(int unit) override { return gradients_.data() + units_[unit]; }
  absl::StatusOr<device::Tensor> WrittenGradient(int unit) override {
    if (written_floats_.empty()) return device::Tensor{};
    if (dtype_ == device::DType::kBF16) return device::Tensor{written_halves_.data() + units_[unit], dtype_};
    return device::Tensor{written_floats_.data() + units_[unit], dtype_};
  }
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
  std::vector<float> values_, gradients_, written_floats_;
  std::vector<device::BF16> halves_, written_halves_;
  std::vector<int> open_;
  const device::DType dtype_;
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
