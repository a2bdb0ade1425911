// What a step's update is computed from: which elements decay, and the numbers that the host knows beforehand.
#ifndef ZEROFLEET_WORKER_OPTIM_STEP_RULE_H_
#define ZEROFLEET_WORKER_OPTIM_STEP_RULE_H_

#include <cstdint>
#include <vector>

#include "worker/device/ops.h"
#include "worker/device/step_control.h"
#include "worker/model/spec.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::optim {

// The segments of flat range [begin, end), in order, neighbours of one rule merged; offsets are from `begin`.
std::vector<device::DecaySegment> DecaySegments(const model::ModelSpec& spec, int64_t begin, int64_t end);

// The inputs of one step's update. `tokens` are the global batch's.
device::StepRule StepRuleOf(const v1::OptimizerConfig& config, double tokens, double learning_rate,
                            const device::LossScaling& loss_scaling);

}  // namespace zerofleet::optim

#endif  // ZEROFLEET_WORKER_OPTIM_STEP_RULE_H_
