// Llama 3's scaling of rotary positions in GGUF: llama.cpp stores the divisor of each frequency, in a tensor, and not
// the settings that the divisors follow from.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_GGUF_ROTARY_H_
#define ZEROFLEET_WORKER_CHECKPOINT_GGUF_ROTARY_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::checkpoint {

inline constexpr char kFrequencyDivisors[] = "rope_freqs.weight";

// The head_size / 2 divisors; empty for a model without this scaling.
std::vector<float> FrequencyDivisors(const v1::ModelConfig& model);

// The scaling of `model`, whose head size and theta are set, that has these divisors: none if all are 1, or Llama 3.1's
// with any factor. InvalidArgument for others.
absl::StatusOr<v1::RopeScalingConfig> ScalingOfDivisors(v1::ModelConfig model, std::span<const float> divisors);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_GGUF_ROTARY_H_
