// The policy of fp16's dynamic loss scaling (Micikevicius et al. 2018, §3.2).
//
// Gradients are those of loss * scale, so that small ones do not vanish in fp16. A step whose gradient is not finite is
// skipped and halves the scale; enough clean steps double it. The device applies the policy (step_control.h).
#ifndef ZEROFLEET_WORKER_OPTIM_LOSS_SCALING_H_
#define ZEROFLEET_WORKER_OPTIM_LOSS_SCALING_H_

#include "worker/device/dtype.h"
#include "worker/device/step_control.h"

namespace zerofleet::optim {

inline constexpr device::LossScaling kDynamicLossScaling = {
    .dynamic = true, .first = 65536.0, .most = 16777216.0, .clean_steps_to_double = 2000};
inline constexpr device::LossScaling kFixedLossScaling = {};  // always 1

// The scaling for a compute type: none for bf16 and fp32, whose range holds gradients as they are.
constexpr const device::LossScaling& LossScalingOf(device::DType compute_type) {
  return compute_type == device::DType::kF16 ? kDynamicLossScaling : kFixedLossScaling;
}

}  // namespace zerofleet::optim

#endif  // ZEROFLEET_WORKER_OPTIM_LOSS_SCALING_H_
