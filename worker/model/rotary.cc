// Powers of theta, and their scalings; see rotary.h.
#include "worker/model/rotary.h"

#include <cmath>
#include <numbers>

namespace zerofleet::model {
namespace {

// Waves longer than the original context / low_freq_factor are stretched by the factor, waves shorter than the original
// context / high_freq_factor are not, and waves in between are stretched in part.
float ScaledForLlama3(float frequency, const v1::RopeScalingConfig& scaling) {
  const auto original = static_cast<double>(scaling.original_max_position_embeddings());
  const double low = scaling.low_freq_factor(), high = scaling.high_freq_factor();
  const double wave = 2 * std::numbers::pi / static_cast<double>(frequency);
  const double stretched = static_cast<double>(frequency) / scaling.factor();
  if (wave < original / high) return frequency;
  if (wave > original / low) return static_cast<float>(stretched);
  const double share = (original / wave - low) / (high - low);
  return static_cast<float>((1 - share) * stretched + share * static_cast<double>(frequency));
}

}  // namespace

std::vector<float> RotaryFrequencies(int64_t head_size, double theta, const v1::RopeScalingConfig& scaling) {
  std::vector<float> frequencies;
  for (int64_t i = 0; i < head_size / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_size);
    float frequency = 1.0f / static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
    if (scaling.type() == "linear") frequency /= static_cast<float>(scaling.factor());
    if (scaling.type() == "llama3") frequency = ScaledForLlama3(frequency, scaling);
    frequencies.push_back(frequency);
  }
  return frequencies;
}

}  // namespace zerofleet::model
