// A checkpoint as users name it: by its step directory, or by a directory of several checkpoints, which means the
// newest.
#ifndef ZEROFLEET_CLI_COMMANDS_CHECKPOINT_PATH_H_
#define ZEROFLEET_CLI_COMMANDS_CHECKPOINT_PATH_H_

#include <iosfwd>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zerofleet::cli {

// The step directory that `path` names; NotFound if there is no committed checkpoint. Newer checkpoints in the
// directory whose manifests are damaged are skipped and named in `warnings`, one per line; if `warnings` is null, they
// are DataLoss.
absl::StatusOr<std::string> ResolveCheckpoint(const std::string& path, std::ostream* warnings = nullptr);

// InvalidArgument if `dir`, in which no checkpoint was found, is itself the step directory of one.
absl::Status CheckNoStepDirectory(const std::string& dir);

// InvalidArgument if `path`, which a command is about to write, is the step directory or lies in it, by whatever links:
// what is there is deleted with the checkpoint.
absl::Status CheckOutsideCheckpoint(const std::string& step_dir, const std::string& path);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_CHECKPOINT_PATH_H_
