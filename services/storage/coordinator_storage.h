// Opening and reading a coordinator's two directories, before it serves anybody.
#ifndef ZEROFLEET_SERVICES_STORAGE_COORDINATOR_STORAGE_H_
#define ZEROFLEET_SERVICES_STORAGE_COORDINATOR_STORAGE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/directory_lock.h"
#include "coordinator/output.h"
#include "services/common/logging.h"
#include "services/storage/checkpoint_store.h"

namespace zerofleet::services {

// As in CoordinatorOptions.
struct CoordinatorStorageOptions {
  v1::Config config;
  std::string state_dir, resume = "auto";
  absl::Duration patience = absl::Seconds(2);  // waiting for another run to leave a directory
  absl::Duration tick = absl::Seconds(1);      // how often a call that is under way is judged
  Logger* logger = nullptr;                    // borrowed; none: no log
  const Clock* clock = &Clock::Real();         // borrowed
};

struct CoordinatorStorage {
  std::unique_ptr<DirectoryLock> state_lock;
  coordinator::CoordinatorState state;  // read once the checkpoint directory was this coordinator's
  bool one_file_system = false;         // both directories are on it
  std::unique_ptr<CheckpointStore> store;
  ResumePlan plan;                   // its notices begin with the weaknesses of the file systems
  uint64_t previous_generation = 0;  // the largest in the state and the checkpoint directory
};

// Locks --state-dir and checkpoint.dir, tries out their file systems, reads the state and the checkpoints, and removes
// what unfinished saves left. Storage that hangs is named in the log after checkpoint.stall_timeout_seconds and later
// given up, as StorageCalls does: the result is DataLoss, and the call keeps running, with all that it holds, until it
// returns or the process ends.
//
// FailedPrecondition naming the directory if another process has it, or if its file system makes commits unsafe.
// Otherwise the errors of ReadCoordinatorState, CheckpointStore::Open and PlanResume.
absl::StatusOr<CoordinatorStorage> OpenCoordinatorStorage(const CoordinatorStorageOptions& options);

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_STORAGE_COORDINATOR_STORAGE_H_
