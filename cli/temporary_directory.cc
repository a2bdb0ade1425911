// mkdtemp and its removal; see temporary_directory.h.
#include "cli/temporary_directory.h"

#include <stdlib.h>

#include "absl/strings/str_cat.h"
#include "base/file.h"

namespace zerofleet {

absl::StatusOr<std::unique_ptr<TemporaryDirectory>> TemporaryDirectory::Create() {
  const char* parent = getenv("TMPDIR");
  std::string path = JoinPath(parent == nullptr ? "/tmp" : parent, "zerofleet-bench-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) return absl::ResourceExhaustedError(absl::StrCat("cannot make ", path));
  return std::unique_ptr<TemporaryDirectory>(new TemporaryDirectory(path));
}

TemporaryDirectory::~TemporaryDirectory() { RemoveTree(path_).IgnoreError(); }

}  // namespace zerofleet
