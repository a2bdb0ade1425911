// See step_rule.h.
#include "worker/optim/step_rule.h"

#include <algorithm>

namespace zerofleet::optim {

std::vector<device::DecaySegment> DecaySegments(const model::ModelSpec& spec, int64_t begin, int64_t end) {
  std::vector<device::DecaySegment> segments;
  for (const model::TensorSpec& tensor : spec.tensors()) {
    int64_t from = std::max(begin, tensor.flat_begin), to = std::min(end, tensor.flat_end);
    if (from >= to) continue;
    const bool decays = tensor.decay && !tensor.frozen;
    if (!segments.empty() && segments.back().decay == decays) {
      segments.back().count += to - from;
    } else {
      segments.push_back({from - begin, to - from, decays});
    }
  }
  return segments;
}

device::StepRule StepRuleOf(const v1::OptimizerConfig& config, double tokens, double learning_rate,
                            const device::LossScaling& loss_scaling) {
  return {.tokens = tokens,
          .grad_clip = config.grad_clip(),
          .loss_scaling = loss_scaling,
          .learning_rate = learning_rate,
          .beta1 = config.beta1(),
          .beta2 = config.beta2(),
          .epsilon = config.epsilon(),
          .momentum = config.momentum(),
          .weight_decay = config.weight_decay()};
}

}  // namespace zerofleet::optim
