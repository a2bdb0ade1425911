// Everything that can be found wrong with a run before its first process starts.
#ifndef ZEROFLEET_CLI_PREFLIGHT_H_
#define ZEROFLEET_CLI_PREFLIGHT_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zerofleet/v1/checkpoint.pb.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet {

// This machine has the configuration's device, and the collectives can serve it. FailedPrecondition otherwise; nothing
// is set up on the device.
absl::Status CheckDevice(const v1::Config& config);

// The training and the validation files open and hold samples.
absl::Status CheckDataFiles(const v1::Config& config);

// What `--resume` (auto, none or the path of a step directory) asks for can be done, and nothing that is committed is
// in the way of what the run will write. InvalidArgument, or DataLoss for a checkpoint of another model.
absl::Status CheckResume(const v1::Config& config, const std::string& resume);

// The manifest's tensors are those of the configured model: DataLoss naming the first that differs.
absl::Status CheckSameTensors(const v1::CheckpointManifest& manifest, const v1::ModelConfig& model,
                              const std::string& path);

// Holds a checkpoint directory for one run on this machine.
class RunDirectory {
 public:
  // Creates `dir` and what the launcher keeps in it. ResourceExhausted if it cannot be written, FailedPrecondition if
  // another run holds it.
  static absl::StatusOr<std::unique_ptr<RunDirectory>> Hold(const std::string& dir);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  std::string state_dir() const;    // the coordinator's
  std::string config_path() const;  // the complete configuration, as the coordinator reads it
  std::string log_path(const std::string& process) const;

 private:
  RunDirectory(std::string dir, int lock) : dir_(std::move(dir)), lock_(lock) {}

  const std::string dir_;
  const int lock_;
};

}  // namespace zerofleet

#endif  // ZEROFLEET_CLI_PREFLIGHT_H_
