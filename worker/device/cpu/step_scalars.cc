// The step's own numbers (ops.h) by step_control.h's functions.
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/step_control.h"

namespace zerofleet::device {

void CpuOps::BeginStep(Stream&, double tokens, StepControl* control) { zerofleet::device::BeginStep(tokens, *control); }

void CpuOps::SumScalars(Stream&, const SumScalarsArguments& p) {
  *p.mine = SumOfScalars(p.losses, p.weights, p.loss_count, p.squares, p.square_count, p.flags);
}

void CpuOps::DecideStep(Stream&, const StepScalars* ranks, int64_t count, const StepRule& rule, StepControl* control) {
  zerofleet::device::DecideStep(SumOverRanks(ranks, count), rule, *control);
}

void CpuOps::SumExactScalars(Stream&, const SumExactScalarsArguments& p) {
  *p.mine = ExactSumOfScalars(p.losses, p.weights, p.loss_count, p.squares, p.square_count, p.flags);
}

void CpuOps::DecideStep(Stream&, const ExactScalars* ranks, int64_t count, const StepRule& rule, StepControl* control) {
  zerofleet::device::DecideStep(SumOverRanks(ranks, count), rule, *control);
}

}  // namespace zerofleet::device
