// Rates of matrix products and of the optimizer, each against a ceiling that is measured in the same run. `zerofleet
// bench gemm` and `bench optimizer` print them.
#ifndef ZEROFLEET_BENCH_KERNEL_BENCHES_H_
#define ZEROFLEET_BENCH_KERNEL_BENCHES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "worker/device/dtype.h"

namespace zerofleet::bench {

struct GemmRate {
  std::string layer;      // "gpt2-124m fc"
  std::string direction;  // "forward" | "backward input" | "backward weight"; for a head "forward and backward"
  device::DType dtype;
  int64_t m, n, k;  // tokens, outputs, inputs
  double flops_per_second;
  double peak_flops_per_second;       // Ops::MeasureGemmPeak of this type
  double datasheet_flops_per_second;  // 0 if unknown
};

struct GemmLayer {
  std::string name;
  int64_t m, n, k;
};

struct GemmWork {
  std::vector<GemmLayer> layers;  // linear layers, measured in every direction
  std::vector<GemmLayer> heads;   // output heads with their loss (Ops::CrossEntropy); n is the vocabulary size
};

// On the CPU the linear layers of GPT-2 124M at 1024 tokens and of a small model at 2048; on a GPU the linear layers
// and the output heads of GPT-2 124M and 1558M at 16384.
GemmWork Gpt2Gemms(const device::Device& device);

// The rates of all of `work` in every type of BenchTypes.
absl::StatusOr<std::vector<GemmRate>> BenchGemm(device::Device& device, const GemmWork& work, int rounds);

struct OptimizerRate {
  std::string optimizer;
  std::string precision;  // the type in which parameters are stored, next to their fp32 master
  int64_t parameters;
  int64_t bytes_per_parameter;  // read and written by one step
  double seconds;
  double bytes_per_second;
  double memory_bytes_per_second;  // MemoryBytesPerSecond over vectors of `parameters` floats
};

// The rate of every optimizer over `parameters` elements, with fp32 gradients.
absl::StatusOr<std::vector<OptimizerRate>> BenchOptimizer(device::Device& device, int64_t parameters, int rounds);

}  // namespace zerofleet::bench

#endif  // ZEROFLEET_BENCH_KERNEL_BENCHES_H_
