// The frequencies of rotary positions (Su et al. 2021), scaled for long contexts as transformers scales them.
#ifndef ZEROFLEET_WORKER_MODEL_ROTARY_H_
#define ZEROFLEET_WORKER_MODEL_ROTARY_H_

#include <cstdint>
#include <vector>

#include "zerofleet/v1/config.pb.h"

namespace zerofleet::model {

// Returns head_size / 2 frequencies, the fastest first; in fp32, as transformers computes them.
std::vector<float> RotaryFrequencies(int64_t head_size, double theta, const v1::RopeScalingConfig& scaling);

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_ROTARY_H_
