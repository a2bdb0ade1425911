// A directory for a bench's files.
#ifndef ZEROFLEET_BENCH_SCRATCH_DIRECTORY_H_
#define ZEROFLEET_BENCH_SCRATCH_DIRECTORY_H_

#include <unistd.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"

namespace zerofleet::bench {

// A directory in `parent` with the process id in its name, removed by the destructor.
class ScratchDirectory {
 public:
  explicit ScratchDirectory(const std::string& parent)
      : path_(JoinPath(parent, absl::StrCat("zerofleet-bench-", getpid()))) {}
  ~ScratchDirectory() { RemoveTree(path_).IgnoreError(); }
  ScratchDirectory(const ScratchDirectory&) = delete;

  // InvalidArgument, with a message that begins with `bench`, if the parent is not a directory.
  absl::Status Create(const std::string& bench) const {
    const std::string parent = ParentOf(path_);
    if (!IsDirectory(parent))
      return absl::InvalidArgumentError(absl::StrCat(bench, ": ", parent, " is not a directory; --dir names another"));
    return CreateDirectories(path_);
  }
  std::string Path(const std::string& name) const { return JoinPath(path_, name); }

 private:
  const std::string path_;
};

}  // namespace zerofleet::bench

#endif  // ZEROFLEET_BENCH_SCRATCH_DIRECTORY_H_
