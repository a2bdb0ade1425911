// The step's own numbers (ops.h), computed by step_control.h's functions on one thread. They stay on the device, so
// that the host need not wait.
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/launch.cuh"
#include "worker/device/step_control.h"

namespace zerofleet::device::cuda {
namespace {

__global__ void __launch_bounds__(1) BeginStepKernel(double tokens, StepControl* control) {
  zerofleet::device::BeginStep(tokens, *control);
}

__global__ void __launch_bounds__(1)
    SumScalarsKernel(const double* losses, const double* weights, int64_t loss_count, const double* squares,
                     int64_t square_count, uint64_t flags, StepScalars* mine) {
  *mine = SumOfScalars(losses, weights, loss_count, squares, square_count, flags);
}

__global__ void __launch_bounds__(1)
    DecideStepKernel(const StepScalars* ranks, int64_t count, StepRule rule, StepControl* control) {
  zerofleet::device::DecideStep(SumOverRanks(ranks, count), rule, *control);
}

__global__ void __launch_bounds__(1)
    SumExactScalarsKernel(const double* losses, const double* weights, int64_t loss_count, const ExactSum* squares,
                          int64_t square_count, uint64_t flags, ExactScalars* mine) {
  *mine = ExactSumOfScalars(losses, weights, loss_count, squares, square_count, flags);
}

__global__ void __launch_bounds__(1)
    DecideExactStepKernel(const ExactScalars* ranks, int64_t count, StepRule rule, StepControl* control) {
  zerofleet::device::DecideStep(SumOverRanks(ranks, count), rule, *control);
}

}  // namespace

void CudaOps::BeginStep(Stream& stream, double tokens, StepControl* control) {
  Launch(stream, "BeginStep", BeginStepKernel, dim3(1), dim3(1), 0, tokens, control);
}

void CudaOps::SumScalars(Stream& stream, const SumScalarsArguments& p) {
  Launch(stream, "SumScalars", SumScalarsKernel, dim3(1), dim3(1), 0, p.losses, p.weights, p.loss_count, p.squares,
         p.square_count, p.flags, p.mine);
}

void CudaOps::DecideStep(Stream& stream, const StepScalars* ranks, int64_t count, const StepRule& rule,
                         StepControl* control) {
  Launch(stream, "DecideStep", DecideStepKernel, dim3(1), dim3(1), 0, ranks, count, rule, control);
}

void CudaOps::SumExactScalars(Stream& stream, const SumExactScalarsArguments& p) {
  Launch(stream, "SumExactScalars", SumExactScalarsKernel, dim3(1), dim3(1), 0, p.losses, p.weights, p.loss_count,
         p.squares, p.square_count, p.flags, p.mine);
}

void CudaOps::DecideStep(Stream& stream, const ExactScalars* ranks, int64_t count, const StepRule& rule,
                         StepControl* control) {
  Launch(stream, "DecideStep", DecideExactStepKernel, dim3(1), dim3(1), 0, ranks, count, rule, control);
}

}  // namespace zerofleet::device::cuda
