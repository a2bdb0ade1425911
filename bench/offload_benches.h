// The update of a whole model on the host, with its gradients there and its parameters copied to the device: what
// offload adds to a step. `zerofleet bench optimizer --offload` prints it, with --offload-dir of states in a file.
#ifndef ZEROFLEET_BENCH_OFFLOAD_BENCHES_H_
#define ZEROFLEET_BENCH_OFFLOAD_BENCHES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/kernel_benches.h"
#include "worker/device/device.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::bench {

// Every optimizer in bf16, one rank in stage 2; memory is the host's.
absl::StatusOr<std::vector<OptimizerRate>> BenchHostUpdate(device::Device& device, const v1::ModelConfig& model,
                                                           int rounds);

// The same with the states in a file in `directory`. Bytes are those read from it and written to it, which stand beside
// what the file does in the same pieces with nothing to compute.
absl::StatusOr<std::vector<OptimizerRate>> BenchUpdateOnDisk(device::Device& device, const v1::ModelConfig& model,
                                                             const std::string& directory, int rounds);

}  // namespace zerofleet::bench

#endif  // ZEROFLEET_BENCH_OFFLOAD_BENCHES_H_
