// Segments of one decay rule, each one device op; see adamw.h.
#include "worker/optim/adamw.h"

#include <algorithm>

namespace zerofleet {

std::vector<DecaySegment> DecaySegments(const ModelSpec& spec, int64_t begin, int64_t end) {
  std::vector<DecaySegment> segments;
  for (const TensorSpec& tensor : spec.tensors()) {
    int64_t from = std::max(begin, tensor.flat_begin), to = std::min(end, tensor.flat_end);
    if (from >= to) continue;
    if (!segments.empty() && segments.back().decay == tensor.decay) {
      segments.back().count += to - from;
    } else {
      segments.push_back({from - begin, to - from, tensor.decay});
    }
  }
  return segments;
}

void UpdateAdamW(Ops& ops, Stream& stream, const v1::OptimizerConfig& config, std::span<const DecaySegment> segments,
                 int64_t step, double learning_rate, double gradient_scale, Tensor gradient, const AdamWState& state,
                 Tensor parameter) {
  for (const DecaySegment& segment : segments) {
    AdamWStep constants{.learning_rate = learning_rate,
                        .beta1 = config.beta1(),
                        .beta2 = config.beta2(),
                        .epsilon = config.epsilon(),
                        .weight_decay = segment.decay ? config.weight_decay() : 0.0,
                        .gradient_scale = gradient_scale,
                        .step = step};
    ops.AdamW(stream, segment.count, constants, gradient.Offset(segment.offset), state.master + segment.offset,
              state.exp_avg + segment.offset, state.exp_avg_sq + segment.offset, parameter.Offset(segment.offset));
  }
}

double ClipCoefficient(double norm, double most) {
  constexpr double kGuard = 1e-6;
  return most > 0 ? std::min(1.0, most / (norm + kGuard)) : 1.0;
}

}  // namespace zerofleet
