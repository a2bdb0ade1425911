// See adamw.h.
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

StepRule StepRuleOf(const v1::OptimizerConfig& config, double tokens, double learning_rate, bool dynamic_loss_scale) {
  return {.tokens = tokens,
          .grad_clip = config.grad_clip(),
          .dynamic_loss_scale = dynamic_loss_scale,
          .learning_rate = learning_rate,
          .beta1 = config.beta1(),
          .beta2 = config.beta2(),
          .epsilon = config.epsilon(),
          .weight_decay = config.weight_decay()};
}

}  // namespace zerofleet
