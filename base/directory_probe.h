// Whether a directory's file system keeps the promises that commits rely on, found out by trial.
//
// A mount may break these promises silently: some FUSE file systems copy where they should rename, some shares create a
// file twice "exclusively", some locks hold on one node alone. A short trial finds this out before hours of training
// do.
#ifndef ZEROFLEET_BASE_DIRECTORY_PROBE_H_
#define ZEROFLEET_BASE_DIRECTORY_PROBE_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zerofleet {

struct DirectoryTraits {
  dev_t device = 0;
  std::string file_system;  // "ext4", "nfs"; "a file system of type 0x1a2b" for one that has no row here
  // What is weaker there than it should be, though no commit is unsafe, and what to do about it. Each is a clause that
  // follows "the file system": "has no flock (...): start no second coordinator there from another node".
  std::vector<std::string> weaknesses;
};

// Tries out what commits rely on, in files of its own (".probe.*" in `dir`): exclusive creation, a rename that replaces
// a file as one step, RENAME_NOREPLACE, renames of directories, fsync of files and directories, and flock. It removes
// the files, and those that a killed trial left. Nothing else in `dir` is touched.
//
// FailedPrecondition, naming the path, the property and the file system, for what would make a commit unsafe;
// ResourceExhausted if nothing can be written there. A disk that is full (or over its quota) counts as a weakness, and
// ends the trial.
absl::StatusOr<DirectoryTraits> ProbeDirectory(const std::string& dir);

}  // namespace zerofleet

#endif  // ZEROFLEET_BASE_DIRECTORY_PROBE_H_
