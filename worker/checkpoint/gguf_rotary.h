// Llama 3's scaling of rotary positions in GGUF: llama.cpp keeps what each frequency is divided by, in a tensor, and
// not the numbers that these follow from.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_GGUF_ROTARY_H_
#define ZEROFLEET_WORKER_CHECKPOINT_GGUF_ROTARY_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::checkpoint {

inline constexpr char kFrequencyDivisors[] = "rope_freqs.weight";

// head_size / 2 of them; empty for a model without this scaling.
std::vector<float> FrequencyDivisors(const v1::ModelConfig& model);

// The scaling whose divisors of `model`, which has a head size and a theta, these are: none where all are 1, or Llama
// 3.1's with any factor. InvalidArgument for others.
absl::StatusOr<v1::RopeScalingConfig> ScalingOfDivisors(v1::ModelConfig model, std::span<const float> divisors);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_GGUF_ROTARY_H_
