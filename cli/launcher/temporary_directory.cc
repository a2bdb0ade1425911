// mkdtemp and its removal; see temporary_directory.h.
#include "cli/launcher/temporary_directory.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/file.h"

namespace zerofleet::cli {

std::string TemporaryParent() {
  const char* parent = getenv("TMPDIR");
  return parent == nullptr || *parent == '\0' ? "/tmp" : parent;
}

absl::StatusOr<std::unique_ptr<TemporaryDirectory>> TemporaryDirectory::Create() {
  std::string path = JoinPath(TemporaryParent(), "zerofleet-bench-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("no temporary directory can be created in ", TemporaryParent(),
                                                     ": ", std::strerror(errno),
                                                     "; set TMPDIR to a writable directory"));
  }
  return std::unique_ptr<TemporaryDirectory>(new TemporaryDirectory(path));
}

TemporaryDirectory::~TemporaryDirectory() { RemoveTree(path_).IgnoreError(); }

}  // namespace zerofleet::cli
