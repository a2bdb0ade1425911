// AdamW over a flat piece of the model: which elements decay, and the step's constants.
#ifndef ZEROFLEET_WORKER_OPTIM_ADAMW_H_
#define ZEROFLEET_WORKER_OPTIM_ADAMW_H_

#include <cstdint>
#include <span>
#include <vector>

#include "worker/device/ops.h"
#include "worker/model/spec.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet {

// A run of elements with one decay rule; offset from the start of the piece.
struct DecaySegment {
  int64_t offset, count;
  bool decay;
};

// The segments of flat range [begin, end), in order, neighbours of one rule merged.
std::vector<DecaySegment> DecaySegments(const ModelSpec& spec, int64_t begin, int64_t end);

// The fp32 vectors a piece keeps: master weights and two moments (12 bytes a parameter: K = 12 of ZeRO §3.1).
struct AdamWState {
  float* master;
  float* exp_avg;
  float* exp_avg_sq;
};

// Updates the segments of one piece; `step` is 1-based, `gradient_scale` the clip coefficient.
void UpdateAdamW(Ops& ops, Stream& stream, const v1::OptimizerConfig& config, std::span<const DecaySegment> segments,
                 int64_t step, double learning_rate, double gradient_scale, Tensor gradient, const AdamWState& state,
                 Tensor parameter);

// The factor that brings a gradient of this norm within `most` (0 = no limit), as PyTorch's clip_grad_norm_.
double ClipCoefficient(double norm, double most);

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_OPTIM_ADAMW_H_
