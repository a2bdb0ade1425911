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

// Checks that this machine has the configuration's device, and that the collectives support it; FailedPrecondition
// otherwise. Sets up nothing on the device.
absl::Status CheckDevice(const v1::Config& config);

// Checks that the training and the validation files can be opened and contain samples. Returns a line on each that says
// what was recognised. Tokenizes text into checkpoint.dir, where workers find it, and shows progress if that takes a
// while. Cancelled once `cancelled` returns true.
absl::StatusOr<std::string> CheckDataFiles(const v1::Config& config, std::ostream& progress, const Terminal& terminal,
                                           const std::function<bool()>& cancelled);

// The number of samples in data.train. Tokenizes text as CheckDataFiles does, with the same progress.
absl::StatusOr<int64_t> CountTrainingSamples(const v1::Config& config, std::ostream& progress, const Terminal& terminal,
                                             const std::function<bool()>& cancelled);

// Checks that every token id in the data is below the vocabulary size. Files that pass are remembered in
// checkpoint.dir, where workers find that. A check that takes a while prints a line. DataLoss naming file, position and
// id; Cancelled once `cancelled` returns true.
absl::Status CheckTokenIds(const v1::Config& config, std::ostream& progress, const std::function<bool()>& cancelled);

// What the checkpoints alone say about a run's start.
struct ResumeCheck {
  // The step directory in checkpoint.dir that already contains the last configured step: nothing is left to do. Empty
  // otherwise.
  std::string finished;
};

// Checks that the run can start as `resume` requests (auto, none or the path of a step directory), and that it will not
// overwrite anything committed. InvalidArgument, or OutOfRange for a checkpoint of another model or optimizer.
absl::StatusOr<ResumeCheck> CheckResume(const v1::Config& config, const std::string& resume);

// Holds a checkpoint directory for one run on this machine.
class RunDirectory {
 public:
  // Creates `dir` and the files that the launcher keeps in it. ResourceExhausted if it cannot be written,
  // FailedPrecondition if another launcher holds it; the run's coordinator locks the checkpoints in it
  // (CheckpointStore).
  static absl::StatusOr<std::unique_ptr<RunDirectory>> Hold(const std::string& dir);
  std::string state_dir() const;    // for the coordinator's state
  std::string config_path() const;  // the complete configuration, as the coordinator reads it
  std::string log_path(const std::string& process) const;
  std::string trace_path(int worker) const;  // the worker's part of a trace, until the parts are joined

 private:
  RunDirectory(std::string dir, std::unique_ptr<DirectoryLock> lock) : dir_(std::move(dir)), lock_(std::move(lock)) {}

  const std::string dir_;
  const std::unique_ptr<DirectoryLock> lock_;
};

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_PREFLIGHT_H_
