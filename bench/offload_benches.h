// The update of a whole model on the host, where its gradients are, and the copy of its parameters to the device: what
// offload adds to a step. `zerofleet bench optimizer --offload` prints it; with --offload-dir, for states in a file.
#ifndef ZEROFLEET_BENCH_OFFLOAD_BENCHES_H_
#define ZEROFLEET_BENCH_OFFLOAD_BENCHES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/kernel_benches.h"
#include "worker/device/device.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::bench {

// Rates of every optimizer in bf16, as one rank in stage 2; memory_bytes_per_second is the host's.
absl::StatusOr<std::vector<OptimizerRate>> BenchHostUpdate(device::Device& device, const v1::ModelConfig& model,
                                                           int rounds);

// Rates of every optimizer with its states in a file in `directory`. Bytes count reads and writes of the file; the
// ceiling is the rate of the file alone, read and written in the same pieces without any computation.
absl::StatusOr<std::vector<OptimizerRate>> BenchUpdateOnDisk(device::Device& device, const v1::ModelConfig& model,
                                                             const std::string& directory, int rounds);

}  // namespace zerofleet::bench

#endif  // ZEROFLEET_BENCH_OFFLOAD_BENCHES_H_
