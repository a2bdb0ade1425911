// Divisors from scalings and back; see gguf_rotary.h.
#include "worker/checkpoint/gguf_rotary.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "worker/model/rotary.h"
#include "worker/model/sizes.h"

namespace zerofleet::checkpoint {
namespace {

// The settings that Llama 3.1, 3.2 and 3.3 share (Grattafiori et al. 2024); they differ in the factor.
constexpr double kLowFactor = 1, kHighFactor = 4;
constexpr int64_t kOriginalContext = 8192;

bool AreAlike(std::span<const float> a, std::span<const float> b) {
  constexpr float kRounding = 1e-5f;
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return std::abs(x - y) <= kRounding * std::abs(y); });
}

}  // namespace

std::vector<float> FrequencyDivisors(const v1::ModelConfig& model) {
  if (model.rope_scaling().type() != "llama3") return {};
  const int64_t head_size = model::Sizes(model).head_size;
  std::vector<float> divisors = model::RotaryFrequencies(head_size, model.rope_theta(), {});
  const std::vector<float> scaled = model::RotaryFrequencies(head_size, model.rope_theta(), model.rope_scaling());
  for (size_t i = 0; i < divisors.size(); ++i) divisors[i] /= scaled[i];
  return divisors;
}

absl::StatusOr<v1::RopeScalingConfig> ScalingOfDivisors(v1::ModelConfig model, std::span<const float> divisors) {
  v1::RopeScalingConfig& scaling = *model.mutable_rope_scaling();
  scaling.Clear();
  scaling.set_type("none");
  if (AreAlike(divisors, std::vector<float>(divisors.size(), 1.0f))) return scaling;
  scaling.set_type("llama3");
  scaling.set_low_freq_factor(kLowFactor);
  scaling.set_high_freq_factor(kHighFactor);
  scaling.set_original_max_position_embeddings(kOriginalContext);
  // The longest waves are divided by the factor; a model may have no waves that long.
  const double largest = std::round(*std::max_element(divisors.begin(), divisors.end()));
  for (const double factor : {largest, 8.0, 32.0}) {
    if (!(factor >= 1 && factor <= 1e6)) continue;
    scaling.set_factor(factor);
    if (AreAlike(divisors, FrequencyDivisors(model))) return scaling;
  }
  return absl::InvalidArgumentError(absl::StrCat("tensor '", kFrequencyDivisors,
                                                 "' scales rotary positions otherwise than Llama 3 does, with ",
                                                 kLowFactor, ", ", kHighFactor, " and ", kOriginalContext, " tokens"));
}

}  // namespace zerofleet::checkpoint
