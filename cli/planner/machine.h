// This machine's CPU device as a cluster of one node, so that everything the planner computes for clusters also works
// for it.
#ifndef ZEROFLEET_CLI_PLANNER_MACHINE_H_
#define ZEROFLEET_CLI_PLANNER_MACHINE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "cli/planner/cluster.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

// What a process on the CPU takes in addition to the plan's rows: code, gRPC, UCX, thread stacks and the product that
// measures the peak; 44 to 57 MiB on 2 cores (docs/planning.md), without packed operands (device::PackedOperandBytes).
inline constexpr int64_t kCpuOutsideBytes = int64_t{48} << 20;

// What a worker of this configuration takes in addition to its plan on this machine's CPU: kCpuOutsideBytes and its
// threads' packed operands; for a PyTorch module kCpuOutsideBytes, Python, PyTorch, and an estimate of what the
// module's own passes keep.
int64_t OutsideBytes(const v1::Config& config);

// Bytes that this process and its children may use: the machine's, or the control group's if that is less.
int64_t UsableMemoryBytes();

// The cluster of `config`'s workers on this machine: each has an equal share of the memory, and no more than
// memory.device_limit and memory.host_limit. The rates are nominal, 60 GFLOP/s and 10 GB/s per core: good enough to
// compare choices, not to predict times.
Cluster ThisMachine(const v1::Config& config);

// ThisMachine with rates that are measured now, which takes some seconds: the products of this model at its
// micro-batch, three streams over memory and, for several workers, collectives between processes. Forks, so the caller
// must have no threads.
absl::StatusOr<Cluster> MeasureThisMachine(const v1::Config& config);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_MACHINE_H_
