// The numbers of an optimizer step that decide the next one: loss, norm, clipping, loss scale, and whether to update.
//
// They live in device memory and are computed there (Ops::BeginStep, SumScalars, DecideStep), by the functions below,
// which run both on the host and in kernels. So neither a device that runs behind the host nor the host waits for the
// other within a step.
//
// What they decide by is data that worker/optim owns: a step's hyperparameters (step_rule.h) and the policy of loss
// scaling (loss_scaling.h). Nothing here knows which optimizer runs: each optimizer's kernel reads the factors that it
// needs.
#ifndef ZEROFLEET_WORKER_DEVICE_STEP_CONTROL_H_
#define ZEROFLEET_WORKER_DEVICE_STEP_CONTROL_H_

#include <cmath>
#include <cstdint>

#include "worker/device/exact_sum.h"
#include "worker/device/host_device.h"

namespace zerofleet::device {

// One rank's scalars of a step, or their sums over all ranks.
struct StepScalars {
  double loss_sum = 0;      // over this rank's tokens, nats
  double squared_norm = 0;  // sum of squares of the gradients this rank owns, with the loss scale in them
  uint64_t flags = 0;       // or-ed over the ranks
  double weight = 0;        // what the loss is to be divided by, where only the passes report it (StepRule::tokens)
};

// StepScalars as sums without rounding, which do not depend on the number of ranks (reduce.order: samples).
struct ExactScalars {
  ExactSum loss_sum, squared_norm, weight;
  uint64_t flags = 0;
};

// How the loss scale moves. Gradients are of loss * scale; a step whose gradient is not finite is skipped: the state
// stays as it was, and a dynamic scale is halved.
struct LossScaling {
  bool dynamic = false;  // false: the scale stays as it is
  double first = 1;      // the scale that a new run begins with
  double most = 1;
  int64_t clean_steps_to_double = 0;
};

// What the host knows about a step beforehand. A hyperparameter that an optimizer does not have is 0.
struct StepRule {
  double tokens;     // in the global batch; 0: the sum of the passes' weights, by which gradients are not divided yet
  double grad_clip;  // largest global L2 norm of the gradient; 0: no limit
  LossScaling loss_scaling;
  double learning_rate;
  double beta1 = 0, beta2 = 0, epsilon = 0, momentum = 0, weight_decay = 0;
  double ema_decay = 0;      // 0: no average is kept
  int64_t ema_start = 0;     // up to and including this update the average is the weights themselves
  bool looks_ahead = false;  // see UpdateFactors
};

// The constants of an update, computed once per step in double.
struct UpdateFactors {
  float gradient_scale;  // the clip coefficient over the loss scale
  float one_minus_beta1, beta2, one_minus_beta2, epsilon;
  float step_size;         // learning rate / (1 - beta1^t), which corrects exp_avg for having begun at zero
  float sqrt_correction2;  // sqrt(1 - beta2^t)
  float momentum;
  float weight_decay;
  float decay;  // 1 - learning_rate * weight_decay: the weight's factor where decay is decoupled from the gradient
  float average_share;  // the fraction of the way to the new weights that the average moves; 1: it becomes them
  // 1: the parameters become not the new weights but those that one more step with the same gradient would give, which
  // a delayed step is to find (docs/offload.md, "Looking ahead"). Only updates on the host read it.
  uint32_t looks_ahead;
};

struct StepControl {
  // These four are carried from step to step, and kept in checkpoints.
  double loss_scale = 1;
  int64_t clean_steps = 0;  // since the loss scale last changed
  int64_t updates = 0;      // steps that were not skipped: the optimizer's step count
  int64_t skipped = 0;
  // The rest belongs to the step in progress.
  float gradient_scale = 1;  // what the loss's gradient is multiplied by: loss_scale / tokens
  uint32_t apply = 0;        // 0: leave the state alone
  UpdateFactors factors = {};
  double loss = 0;       // mean per token over the global batch, nats
  double grad_norm = 0;  // global L2 norm before clipping, not scaled
  uint64_t flags = 0;
};

ZF_HOST_DEVICE inline StepScalars SumOfScalars(const double* losses, const double* weights, int64_t loss_count,
                                               const double* squares, int64_t square_count, uint64_t flags) {
  StepScalars sum;
  for (int64_t i = 0; i < loss_count; ++i) sum.loss_sum += losses[i];
  for (int64_t i = 0; i < loss_count && weights != nullptr; ++i) sum.weight += weights[i];
  for (int64_t i = 0; i < square_count; ++i) sum.squared_norm += squares[i];
  sum.flags = flags;
  return sum;
}

// Adds in rank order, so that every rank gets the same bits.
ZF_HOST_DEVICE inline StepScalars SumOverRanks(const StepScalars* ranks, int64_t count) {
  StepScalars total;
  for (int64_t rank = 0; rank < count; ++rank) {
    total.loss_sum += ranks[rank].loss_sum;
    total.squared_norm += ranks[rank].squared_norm;
    total.flags |= ranks[rank].flags;
    total.weight += ranks[rank].weight;
  }
  return total;
}

// `squares` are normalized.
ZF_HOST_DEVICE inline ExactScalars ExactSumOfScalars(const double* losses, const double* weights, int64_t loss_count,
                                                     const ExactSum* squares, int64_t square_count, uint64_t flags) {
  ExactScalars sum;
  for (int64_t i = 0; i < loss_count; ++i) sum.loss_sum.Add(losses[i]);
  sum.loss_sum.Normalize();
  for (int64_t i = 0; i < loss_count && weights != nullptr; ++i) sum.weight.Add(weights[i]);
  sum.weight.Normalize();
  for (int64_t i = 0; i < square_count; ++i) sum.squared_norm.Add(squares[i]);
  sum.flags = flags;
  return sum;
}

// Rounds once, when all ranks' sums are added; their order does not matter.
ZF_HOST_DEVICE inline StepScalars SumOverRanks(const ExactScalars* ranks, int64_t count) {
  ExactScalars total;
  for (int64_t rank = 0; rank < count; ++rank) {
    total.loss_sum.Add(ranks[rank].loss_sum);
    total.squared_norm.Add(ranks[rank].squared_norm);
    total.flags |= ranks[rank].flags;
    total.weight.Add(ranks[rank].weight);
  }
  return {total.loss_sum.Value(), total.squared_norm.Value(), total.flags, total.weight.Value()};
}

ZF_HOST_DEVICE inline void BeginStep(double tokens, StepControl& control) {
  control.gradient_scale = static_cast<float>(control.loss_scale / tokens);
  control.apply = 0;
}

// As PyTorch's clip_grad_norm_ with the limit `most`; 0 means no limit.
ZF_HOST_DEVICE inline double ClipCoefficient(double norm, double most) {
  constexpr double kGuard = 1e-6;
  if (!(most > 0)) return 1.0;
  const double coefficient = most / (norm + kGuard);
  return coefficient < 1.0 ? coefficient : 1.0;
}

// `updates` counts the update in progress.
ZF_HOST_DEVICE inline UpdateFactors FactorsOf(const StepRule& rule, double gradient_scale, int64_t updates) {
  const double step = static_cast<double>(updates);
  const double correction1 = 1.0 - std::pow(rule.beta1, step);
  const double correction2 = 1.0 - std::pow(rule.beta2, step);
  UpdateFactors factors;
  factors.gradient_scale = static_cast<float>(gradient_scale);
  factors.one_minus_beta1 = static_cast<float>(1.0 - rule.beta1);
  factors.beta2 = static_cast<float>(rule.beta2);
  factors.one_minus_beta2 = static_cast<float>(1.0 - rule.beta2);
  factors.decay = static_cast<float>(1.0 - rule.learning_rate * rule.weight_decay);
  factors.step_size = static_cast<float>(rule.learning_rate / correction1);
  factors.sqrt_correction2 = static_cast<float>(std::sqrt(correction2));
  factors.epsilon = static_cast<float>(rule.epsilon);
  factors.momentum = static_cast<float>(rule.momentum);
  factors.weight_decay = static_cast<float>(rule.weight_decay);
  factors.average_share = updates <= rule.ema_start ? 1.0f : static_cast<float>(1.0 - rule.ema_decay);
  factors.looks_ahead = rule.looks_ahead ? 1 : 0;
  return factors;
}

ZF_HOST_DEVICE inline void NextLossScale(bool finite, const LossScaling& scaling, StepControl& control) {
  if (!finite) {
    control.loss_scale = control.loss_scale > 2.0 ? control.loss_scale / 2.0 : 1.0;
    control.clean_steps = 0;
  } else if (++control.clean_steps == scaling.clean_steps_to_double) {
    if (control.loss_scale < scaling.most) control.loss_scale *= 2.0;
    control.clean_steps = 0;
  }
}

// `total` is the sum over all ranks in rank order.
ZF_HOST_DEVICE inline void DecideStep(const StepScalars& total, const StepRule& rule, StepControl& control) {
  // The loss is divided by this; so is its gradient, unless BeginStep's scale has done so.
  const double divisor = rule.tokens > 0 ? rule.tokens : total.weight;
  const double scale = rule.tokens > 0 ? control.loss_scale : control.loss_scale * total.weight;
  control.loss = total.loss_sum / divisor;
  control.grad_norm = std::sqrt(total.squared_norm) / scale;
  control.flags = total.flags;
  const bool finite = std::isfinite(control.grad_norm) && std::isfinite(control.loss);
  control.apply = finite ? 1 : 0;
  if (finite) {
    ++control.updates;
    const double clip = ClipCoefficient(control.grad_norm, rule.grad_clip);
    control.factors = FactorsOf(rule, clip / scale, control.updates);
  } else {
    ++control.skipped;
  }
  if (rule.loss_scaling.dynamic) NextLossScale(finite, rule.loss_scaling, control);
}

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_STEP_CONTROL_H_
