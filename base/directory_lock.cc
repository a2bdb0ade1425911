// flock and an abstract socket; see directory_lock.h.
#include "base/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"

namespace zerofleet {
namespace {

absl::Status Held(const std::string& dir) {
  return absl::AlreadyExistsError(absl::StrCat(dir, " is held by another process"));
}

// A socket bound to a name that stands for `path`; -1 if another process has it.
absl::StatusOr<int> BindName(const std::string& path) {
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return absl::ResourceExhaustedError(absl::StrCat("cannot open a socket: ", std::strerror(errno)));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string name = absl::StrCat("zerofleet-lock-", Digest128(path));
  std::copy(name.begin(), name.end(), address.sun_path + 1);  // a leading zero: no file
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(descriptor, reinterpret_cast<const sockaddr*>(&address), length) == 0) return descriptor;
  const int error = errno;
  close(descriptor);
  if (error == EADDRINUSE) return -1;
  return absl::ResourceExhaustedError(absl::StrCat("cannot bind the lock of ", path, ": ", std::strerror(error)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Acquire(const std::string& dir, const std::string& name) {
  ZF_RETURN_IF_ERROR(CreateDirectories(dir));
  std::error_code error;
  const std::string canonical = std::filesystem::canonical(dir, error);
  if (error) return absl::ResourceExhaustedError(absl::StrCat(dir, ": ", error.message()));
  const std::string path = JoinPath(canonical, name);
  ZF_ASSIGN_OR_RETURN(const int socket, BindName(path));
  if (socket < 0) return Held(dir);
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) {
    const std::string why = std::strerror(errno);
    close(socket);
    return absl::ResourceExhaustedError(absl::StrCat(path, ": cannot open: ", why));
  }
  std::unique_ptr<DirectoryLock> lock(new DirectoryLock(dir, path, file, socket));
  if (flock(file, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK) return Held(dir);
  return absl::ResourceExhaustedError(absl::StrCat(path, ": cannot lock: ", std::strerror(errno)));
}

DirectoryLock::~DirectoryLock() {
  close(file_);
  close(socket_);
}

absl::Status DirectoryLock::CheckHeld() const {
  struct stat ours, there;
  const bool found = stat(path_.c_str(), &there) == 0;
  const bool gone = !found && (errno == ENOENT || errno == ENOTDIR);
  if (fstat(file_, &ours) != 0) return absl::OkStatus();
  if (!gone && (!found || (ours.st_dev == there.st_dev && ours.st_ino == there.st_ino))) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(dir_, " was removed or replaced while it was in use"));
}

}  // namespace zerofleet
