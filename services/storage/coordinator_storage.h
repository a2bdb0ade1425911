// What a coordinator takes and reads of its two directories before it serves anybody.
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
  absl::Duration patience = absl::Seconds(2);  // for another run that is about to leave a directory
  absl::Duration tick = absl::Seconds(1);      // how often a call that is under way is looked at
  Logger* logger = nullptr;                    // borrowed; none: no log
  const Clock* clock = &Clock::Real();         // borrowed
};

struct CoordinatorStorage {
  std::unique_ptr<DirectoryLock> state_lock;
  coordinator::CoordinatorState state;  // as it was when the checkpoint directory was this coordinator's, or later
  bool one_file_system = false;         // has both directories
  std::unique_ptr<CheckpointStore> store;
  ResumePlan plan;                   // its notices begin with what is weak in a directory's file system
  uint64_t previous_generation = 0;  // of the state or of anything in the checkpoint directory
};

// Takes --state-dir and checkpoint.dir, tries out their file systems, reads the state and the checkpoints, and removes
// what unfinished saves left. Storage that hangs is named in the log after checkpoint.stall_timeout_seconds and given
// up as StorageCalls says: DataLoss, and the call is left to itself, with what it holds, until the process ends.
//
// FailedPrecondition naming the directory if another process has it, or if its file system makes commits unsafe.
// Otherwise the errors of ReadCoordinatorState, CheckpointStore::Open and PlanResume.
absl::StatusOr<CoordinatorStorage> OpenCoordinatorStorage(const CoordinatorStorageOptions& options);

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_STORAGE_COORDINATOR_STORAGE_H_
