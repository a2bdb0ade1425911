// Rates of the ops between a transformer's matrix products: attention against the GEMM peak, norms, activations and
// conversions against memory bandwidth. `zerofleet bench attention` and `bench pointwise` print them.
#ifndef ZEROFLEET_BENCH_LAYER_BENCHES_H_
#define ZEROFLEET_BENCH_LAYER_BENCHES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "worker/device/dtype.h"
#include "worker/device/ops.h"

namespace zerofleet::bench {

struct AttentionWork {
  std::string name;
  device::AttentionShape shape;
};

// On the CPU one sequence of 256 and one of 2048 tokens in the shape of GPT-2 124M; on a GPU 16 sequences of 1024 in
// those of 124M and 1558M.
std::vector<AttentionWork> Gpt2Attentions(const device::Device& device);

struct AttentionRate {
  std::string name;
  std::string direction;  // "forward" | "backward"
  device::DType dtype;
  device::AttentionShape shape;
  double flops_per_second;       // counts the causal half: 2 B H T^2 D FLOPs forward, 2.5 times as many backward
  double peak_flops_per_second;  // Ops::MeasureGemmPeak of this type
  std::string refusal;  // why the device's library does not run it; empty if it does, or if there is no library
};

absl::StatusOr<std::vector<AttentionRate>> BenchAttention(device::Device& device,
                                                          const std::vector<AttentionWork>& work, int rounds);

struct PointwiseRate {
  std::string op;  // such as "layer norm forward"
  device::DType dtype;
  int64_t tokens, hidden;
  double bytes_per_second;         // counts whole activations that are read or written, each once
  double memory_bytes_per_second;  // MemoryBytesPerSecond over the bytes of one activation
};

absl::StatusOr<std::vector<PointwiseRate>> BenchPointwise(device::Device& device, int64_t tokens, int64_t hidden,
                                                          int rounds);

}  // namespace zerofleet::bench

#endif  // ZEROFLEET_BENCH_LAYER_BENCHES_H_
