// AdamW (ops.h).
//
// Estimate: per element 12 bytes of state are read and 12 written, 2 or 4 of gradient read, and 2 or 4 of parameter
// written (none where the parameter is the master itself): 28 bytes in bf16. 124.4M parameters over an H200's 4.8 TB/s
// are 0.73 ms; the goal is 0.90 of the rate of a plain copy on the same device. Arithmetic is some 60 instructions per
// element, while 250 could issue in the time its bytes take.
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/update.cuh"

namespace zerofleet::device::cuda {
namespace {

struct AdamWRule {
  static constexpr const char* kName = "AdamW";
  static constexpr int kVectors = 2;  // exp_avg, exp_avg_sq
  __device__ static auto Make(const UpdateFactors& factors, bool decay) {
    return element::MakeAdamWElements<element::FloatMath>(factors, decay);
  }
  __device__ static float Update(const element::AdamWElements<element::FloatMath>& factors, float gradient,
                                 float weight, float (&states)[kVectors]) {
    return element::AdamWElement<element::FloatMath>(factors, gradient, weight, states[0], states[1]);
  }
};

}  // namespace

void CudaOps::AdamW(Stream& stream, const AdamWArguments& p) {
  LaunchUpdate<AdamWRule>(stream, p.segments, p.control, p.gradient, p.master, {p.exp_avg, p.exp_avg_sq}, p.parameter);
}

}  // namespace zerofleet::device::cuda
