// What the file system of a directory does for those who commit files to it, found out by trial.
//
// A commit rests on promises that a mount may break in silence: some FUSE file systems copy where they should rename,
// some shares create a file twice "exclusively", some locks hold on one node alone. A trial of a moment says so before
// hours of training do.
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
  // What is weaker there than it should be, in no commit's way, and what to do; each a clause after "the file system":
  // "has no flock (...): start no second coordinator there from another node".
  std::vector<std::string> weaknesses;
};

// Tries out in files apart, ".probe.*" in `dir`, what commits rest on: exclusive creation, a rename that replaces a
// file as one step, RENAME_NOREPLACE, renames of directories, fsync of files and directories, and flock. The files are
// removed, and so are those of a trial that was killed. Nothing else in `dir` is touched.
//
// FailedPrecondition, naming the path, the property and the file system, for what would make a commit unsafe;
// ResourceExhausted if nothing can be written there. A disk that is full (or over its quota) is a weakness: the trial
// ends there.
absl::StatusOr<DirectoryTraits> ProbeDirectory(const std::string& dir);

}  // namespace zerofleet

#endif  // ZEROFLEET_BASE_DIRECTORY_PROBE_H_
