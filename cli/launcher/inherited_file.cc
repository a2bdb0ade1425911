// memfd_create; see inherited_file.h.
#include "cli/launcher/inherited_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace zerofleet::cli {

absl::StatusOr<std::unique_ptr<InheritedFile>> InheritedFile::Create(const std::string& contents) {
  const int descriptor = memfd_create("zerofleet", MFD_CLOEXEC);
  if (descriptor < 0) {
    return absl::ResourceExhaustedError(absl::StrCat("no file in memory for the children: ", std::strerror(errno)));
  }
  std::unique_ptr<InheritedFile> file(new InheritedFile(descriptor));
  const auto size = static_cast<ssize_t>(contents.size());
  if (fchmod(descriptor, 0600) != 0 || write(descriptor, contents.data(), contents.size()) != size) {
    return absl::ResourceExhaustedError(absl::StrCat("a file in memory for the children: ", std::strerror(errno)));
  }
  return file;
}

InheritedFile::~InheritedFile() { close(descriptor_); }

}  // namespace zerofleet::cli
