// Rates of the device's kernels, each beside the ceiling measured in the same run. `zerofleet bench` prints them.
//
// Times are the best of several rounds: other work on the machine only ever makes a round slower.
#ifndef ZEROFLEET_BENCH_KERNEL_BENCHES_H_
#define ZEROFLEET_BENCH_KERNEL_BENCHES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "worker/device/dtype.h"

namespace zerofleet {

struct GemmRate {
  std::string layer;      // "gpt2-124m fc"
  std::string direction;  // "forward" | "backward input" | "backward weight"
  DType dtype;
  int64_t m, n, k;        // tokens, outputs, inputs
  double flops_per_second;
  double peak_flops_per_second;  // Ops::MeasureGemmPeak of this type
};

struct GemmLayer {
  std::string name;
  int64_t m, n, k;
};

// The linear layers of GPT-2 124M at 1024 tokens and of a small model at 2048.
std::vector<GemmLayer> Gpt2Layers();

// Each layer in every direction and type.
absl::StatusOr<std::vector<GemmRate>> BenchGemm(Device& device, const std::vector<GemmLayer>& layers, int rounds);

struct OptimizerRate {
  std::string precision;        // "fp32" | "bf16": what the parameters are stored as beside their fp32 master
  int64_t parameters;
  int64_t bytes_per_parameter;  // read and written by one AdamW step
  double seconds;
  double bytes_per_second;
  double memory_bytes_per_second;  // of y = a + b on the same device: three streams, as in STREAM's triad
};

// AdamW over `parameters` elements with fp32 gradients.
absl::StatusOr<std::vector<OptimizerRate>> BenchOptimizer(Device& device, int64_t parameters, int rounds);

}  // namespace zerofleet

#endif  // ZEROFLEET_BENCH_KERNEL_BENCHES_H_
