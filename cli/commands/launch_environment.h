// The environment variables by which other launchers tell a process its place: torchrun's LOCAL_RANK and MASTER_ADDR,
// Slurm's SLURM_LOCALID and SLURMD_NODENAME.
//
// A worker's number on its node and the node's name are taken from them. Its rank is not: the coordinator gives ranks,
// so RANK and WORLD_SIZE have no meaning here.
#ifndef ZEROFLEET_CLI_COMMANDS_LAUNCH_ENVIRONMENT_H_
#define ZEROFLEET_CLI_COMMANDS_LAUNCH_ENVIRONMENT_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zerofleet::cli {

inline constexpr int kMostLocalRank = 1023;

// The variables' values; empty if one is not set.
struct LaunchEnvironment {
  std::string local_rank = "";            // LOCAL_RANK: torchrun
  std::string local_world_size = "";      // LOCAL_WORLD_SIZE: torchrun
  std::string master_addr = "";           // MASTER_ADDR: torchrun
  std::string slurm_localid = "";         // SLURM_LOCALID: srun
  std::string slurm_tasks_per_node = "";  // SLURM_STEP_TASKS_PER_NODE: srun; "8", "8(x2)" or "8,4"
  std::string slurmd_nodename = "";       // SLURMD_NODENAME: srun

  static LaunchEnvironment Current();
};

// The number of a worker on its node: `flag`, else LOCAL_RANK, else SLURM_LOCALID, else 0. LOCAL_RANK comes first
// because all workers of a node share one SLURM_LOCALID if srun has started torchrun. InvalidArgument, naming the
// variable, if it is not a number.
absl::StatusOr<int> LocalRank(const LaunchEnvironment& environment, std::optional<int> flag);

// The node that a worker is on, for the order of ranks: `flag`, else SLURMD_NODENAME; empty if neither says.
std::string NodeName(const LaunchEnvironment& environment, const std::string& flag);

// InvalidArgument if this process, which is to start `workers` workers of its node, is one of several there.
absl::Status CheckAloneOnNode(const LaunchEnvironment& environment, int workers);

// InvalidArgument unless `coordinator` is given; the message explains MASTER_ADDR if that is set.
absl::Status CheckCoordinatorGiven(const LaunchEnvironment& environment, const std::string& coordinator);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_LAUNCH_ENVIRONMENT_H_
