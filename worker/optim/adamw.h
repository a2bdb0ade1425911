// AdamW over a flat piece of the model: which elements decay, and what a step is computed from.
#ifndef ZEROFLEET_WORKER_OPTIM_ADAMW_H_
#define ZEROFLEET_WORKER_OPTIM_ADAMW_H_

#include <cstdint>
#include <vector>

#include "worker/device/ops.h"
#include "worker/model/spec.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet {

// The segments of flat range [begin, end), in order, neighbours of one rule merged; offsets are from `begin`.
std::vector<DecaySegment> DecaySegments(const ModelSpec& spec, int64_t begin, int64_t end);

// The fp32 vectors a piece keeps: master weights and two moments (12 bytes per parameter: K = 12 of ZeRO §3.1).
struct AdamWState {
  float* master;
  float* exp_avg;
  float* exp_avg_sq;
};

// The inputs of one step's update. `tokens` is that of the global batch.
StepRule StepRuleOf(const v1::OptimizerConfig& config, double tokens, double learning_rate, bool dynamic_loss_scale);

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_OPTIM_ADAMW_H_
