// All faults of a run that can be found before its first process starts.
#ifndef ZEROFLEET_CLI_LAUNCHER_PREFLIGHT_H_
#define ZEROFLEET_CLI_LAUNCHER_PREFLIGHT_H_

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/directory_lock.h"
#include "cli/report/terminal.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

// This machine has the configuration's device, and the collectives can serve it. FailedPrecondition otherwise; nothing
// is set up on the device.
absl::Status CheckDevice(const v1::Config& config);

// The training and the validation files open and contain samples; what was recognised, a line each. Text is tokenized
// here, into checkpoint.dir, where workers find it; what takes a while says so. Cancelled once `cancelled` returns
// true.
absl::StatusOr<std::string> CheckDataFiles(const v1::Config& config, std::ostream& progress, const Terminal& terminal,
                                           const std::function<bool()>& cancelled);

// How many samples data.train has. Text is tokenized as by CheckDataFiles, of which `progress` is told.
absl::StatusOr<int64_t> CountTrainingSamples(const v1::Config& config, std::ostream& progress, const Terminal& terminal,
                                             const std::function<bool()>& cancelled);

// Every id of the data is below the vocabulary; what passes is remembered in checkpoint.dir, where workers find it. A
// check that takes a while prints a line. DataLoss naming file, position and id; Cancelled once `cancelled` returns
// true.
absl::Status CheckTokenIds(const v1::Config& config, std::ostream& progress, const std::function<bool()>& cancelled);

// What is known of a run's start from its checkpoints alone.
struct ResumeCheck {
  // The step directory in checkpoint.dir that already contains the last configured step: nothing is left to do. Empty
  // otherwise.
  std::string finished;
};

// Checks that what `--resume` (auto, none or the path of a step directory) asks for can be done, and that the run
// will not write over anything committed. InvalidArgument, or OutOfRange for a checkpoint of another model or
// optimizer.
absl::StatusOr<ResumeCheck> CheckResume(const v1::Config& config, const std::string& resume);

// Holds a checkpoint directory for one run on this machine.
class RunDirectory {
 public:
  // Creates `dir` and the files that the launcher keeps in it. ResourceExhausted if it cannot be written,
  // FailedPrecondition if another launcher holds it; the run's coordinator locks the checkpoints in it
  // (CheckpointStore).
  static absl::StatusOr<std::unique_ptr<RunDirectory>> Hold(const std::string& dir);
  std::string state_dir() const;    // the coordinator's
  std::string config_path() const;  // the complete configuration, as the coordinator reads it
  std::string log_path(const std::string& process) const;
  std::string trace_path(int worker) const;  // its part of a trace, until it is joined

 private:
  RunDirectory(std::string dir, std::unique_ptr<DirectoryLock> lock) : dir_(std::move(dir)), lock_(std::move(lock)) {}

  const std::string dir_;
  const std::unique_ptr<DirectoryLock> lock_;
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_PREFLIGHT_H_
