// Where a step's time goes: how long each rank's ops took (worker/device/profile), beside how long they could ideally
// take.
#ifndef ZEROFLEET_CLI_COMMANDS_STEP_PROFILE_H_
#define ZEROFLEET_CLI_COMMANDS_STEP_PROFILE_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/report/table.h"
#include "nlohmann/json.hpp"
#include "worker/device/profile/op_profile.h"

namespace zerofleet::cli {

// The highest rates that one rank can reach.
struct StepCeilings {
  double flops_per_second = 0, bytes_per_second = 0;
};

// One op in an average step. Its ideal time is that of its FLOPs or its bytes at their ceiling, whichever is longer.
struct ProfiledOp {
  std::string name;
  device::OpFigures figures;  // per step
  double calls = 0, ideal_seconds = 0;

  double gap() const { return figures.seconds - ideal_seconds; }
};

struct RankProfile {
  std::vector<ProfiledOp> ops;             // ops of a step, the largest gap first
  std::map<std::string, double> at_start;  // seconds of ops that initialised the state, since the process started
  double steps = 0;
  std::map<std::string, double> phases;  // seconds per step, by phase; phases may overlap
};

// What each process's ops have taken so far: by the name of the process's file, then by op.
using Profiles = std::map<std::string, std::map<std::string, device::OpFigures>>;
absl::StatusOr<Profiles> ReadProfiles(const std::string& folder);

// What each process that trained did from `before` to `after`, in the order in which the processes were started.
// Processes that decided no step have not trained, and are left out.
std::vector<RankProfile> ProfilesBetween(const Profiles& before, const Profiles& after, const StepCeilings& ceilings);

// Seconds per step of each phase, from a worker's metrics.
std::map<std::string, double> PhasesIn(const std::map<std::string, double>& metrics);

// A row per op, a row for all of them, and one for the rest of a step of `step_seconds`.
TextTable ProfileTable(const RankProfile& rank, double step_seconds);
nlohmann::ordered_json ProfileJson(const RankProfile& rank);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_STEP_PROFILE_H_
