// The coordinator's durable state: one small JSON file in its --state-dir.
//
//   {"format_version": 3, "generation": 3, "last_committed_step": 200, "rollbacks": [], "manifests": [{"step": 200,
//    "manifest_xxh3_128": "5c1f..."}], "run_id": "0a4e..."}
//
// `last_committed_step` is the newest commit in the run's own checkpoint directory, where a later start must find that
// step or a newer one. `manifests` are those of the checkpoints that the run may go back to, so that another checkpoint
// in their place is noticed. `run_id` is the report's, 32 hexadecimal digits; a state file of an earlier release has
// none. `rollbacks` say what the run leaves out (coordinator/divergence.h): {"step": 231, "resumed_step": 200,
// "first_sample": 3200, "end_sample": 3696, "cause": "loss nan, gradient norm nan"}.
#ifndef ZEROFLEET_SERVICES_STORAGE_COORDINATOR_STATE_H_
#define ZEROFLEET_SERVICES_STORAGE_COORDINATOR_STATE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/output.h"

namespace zerofleet::services {

// Path of the file in `state_dir`.
std::string CoordinatorStatePath(const std::string& state_dir);

// The stored state; a fresh one if there is no file. DataLoss, naming the file, if it is damaged or of a later format:
// a coordinator that guessed its generation could undo the fencing of workers that still run.
absl::StatusOr<coordinator::CoordinatorState> ReadCoordinatorState(const std::string& state_dir);

// Durable once it returns OK. Creates `state_dir`.
absl::Status WriteCoordinatorState(const std::string& state_dir, const coordinator::CoordinatorState& state);

// STATE_DIR/flight-GENERATION.json: what the ranks of a lost view were doing. The newest kMostFlightFiles are kept.
inline constexpr int kMostFlightFiles = 16;
absl::Status WriteFlight(const std::string& state_dir, const v1::Flight& flight);

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_STORAGE_COORDINATOR_STATE_H_
