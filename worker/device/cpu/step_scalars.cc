// The step's own numbers (ops.h) by step_control.h's functions.
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/step_control.h"

namespace zerofleet {

void CpuOps::BeginStep(Stream&, double tokens, StepControl* control) { zerofleet::BeginStep(tokens, *control); }

void CpuOps::SumScalars(Stream&, const double* losses, int64_t loss_count, const double* squares, int64_t square_count,
                        uint64_t flags, StepScalars* mine) {
  *mine = SumOfScalars(losses, loss_count, squares, square_count, flags);
}

void CpuOps::DecideStep(Stream&, const StepScalars* ranks, int64_t count, const StepRule& rule, StepControl* control) {
  zerofleet::DecideStep(SumOverRanks(ranks, count), rule, *control);
}

}  // namespace zerofleet
