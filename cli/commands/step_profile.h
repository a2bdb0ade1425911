// Where a step's time goes: what each rank's ops took (worker/device/profile), beside what they could take.
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

// What one rank's machine can do at most.
struct StepCeilings {
  double flops_per_second = 0, bytes_per_second = 0;
};

// One op in an average step. Ideal: its products at the one ceiling or its bytes at the other, whichever is longer.
struct ProfiledOp {
  std::string name;
  device::OpFigures figures;  // per step
  double calls = 0, ideal_seconds = 0;

  double gap() const { return figures.seconds - ideal_seconds; }
};

struct RankProfile {
  std::vector<ProfiledOp> ops;             // the largest gap first; those of a step
  std::map<std::string, double> at_start;  // seconds of ops that made the state, of `before` too
  double steps = 0;
  std::map<std::string, double> phases;  // seconds per step; phases may overlap
};

// By the name of a process's file: what its ops have taken so far.
using Profiles = std::map<std::string, std::map<std::string, device::OpFigures>>;
absl::StatusOr<Profiles> ReadProfiles(const std::string& folder);

// What the processes that trained, those whose steps were decided, did from `before` to `after`, in the order in which
// they were started.
std::vector<RankProfile> ProfilesBetween(const Profiles& before, const Profiles& after, const StepCeilings& ceilings);

// Seconds per step of each phase, from a worker's metrics.
std::map<std::string, double> PhasesIn(const std::map<std::string, double>& metrics);

// A row per op, a row for all of them, and one for the rest of a step of `step_seconds`.
TextTable ProfileTable(const RankProfile& rank, double step_seconds);
nlohmann::ordered_json ProfileJson(const RankProfile& rank);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_STEP_PROFILE_H_
