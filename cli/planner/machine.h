// This machine's CPU device as a cluster of one node, so that what is said of clusters is said of it too.
#ifndef ZEROFLEET_CLI_PLANNER_MACHINE_H_
#define ZEROFLEET_CLI_PLANNER_MACHINE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "cli/planner/cluster.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

// What a process on the CPU takes beside the plan's rows: code, gRPC, UCX, thread stacks and the product that measures
// the peak; 44 to 57 MiB on 2 cores (docs/planning.md).
inline constexpr int64_t kCpuOutsideBytes = int64_t{48} << 20;

// The same of a worker of this configuration: of a PyTorch module also Python, PyTorch, and an estimate of what the
// module's own passes keep.
int64_t OutsideBytes(const v1::Config& config);

// Bytes that this process and its children may use: the machine's, or the control group's if that is less.
int64_t UsableMemoryBytes();

// For the workers of `config`: their memory is an equal share, and no more than its memory.device_limit and host_limit.
// The rates are nominal, of a core of 60 GFLOP/s and 10 GB/s: they compare choices, and predict no time.
Cluster ThisMachine(const v1::Config& config);

// The same with rates measured now, in some seconds: the products of this model at its micro-batch, three streams over
// memory, and, for several workers, collectives between processes. It forks, so the caller must have no threads.
absl::StatusOr<Cluster> MeasureThisMachine(const v1::Config& config);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_MACHINE_H_
