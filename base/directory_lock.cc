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
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
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

// Locks the file and returns its descriptor; -1 if another process has the lock. Where there is no flock, it is only
// opened.
absl::StatusOr<int> LockFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return absl::ResourceExhaustedError(absl::StrCat(path, ": cannot open: ", std::strerror(errno)));
  if (flock(file, LOCK_EX | LOCK_NB) == 0) return file;
  const int error = errno;
  if (error == ENOSYS || error == EOPNOTSUPP) return file;
  close(file);
  if (error == EWOULDBLOCK) return -1;
  return absl::ResourceExhaustedError(absl::StrCat(path, ": cannot lock: ", std::strerror(error)));
}

// Whether the nearest ancestor of `path` that exists is on this device.
bool IsOnDevice(std::filesystem::path path, dev_t device) {
  struct stat there;
  while (stat(path.c_str(), &there) != 0) {
    if (errno != ENOENT || path == path.parent_path()) return false;
    path = path.parent_path();
  }
  return there.st_dev == device;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Acquire(const std::string& dir, const std::string& name,
                                                                      absl::Duration patience) {
  constexpr absl::Duration kRetry = absl::Milliseconds(50);
  absl::StatusOr<std::unique_ptr<DirectoryLock>> lock = TryAcquire(dir, name);
  for (; absl::IsAlreadyExists(lock.status()) && patience > absl::ZeroDuration(); patience -= kRetry) {
    absl::SleepFor(kRetry);
    lock = TryAcquire(dir, name);
  }
  return lock;
}

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::TryAcquire(const std::string& dir,
                                                                         const std::string& name) {
  ZF_RETURN_IF_ERROR(CreateDirectories(dir));
  std::error_code error;
  const std::string canonical = std::filesystem::canonical(dir, error);
  if (error) return absl::ResourceExhaustedError(absl::StrCat(dir, ": ", error.message()));
  const std::string path = JoinPath(canonical, name);
  struct stat there;
  if (stat(canonical.c_str(), &there) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat(dir, ": ", std::strerror(errno)));
  }
  ZF_ASSIGN_OR_RETURN(const int socket, BindName(path));
  if (socket < 0) return Held(dir);
  const absl::StatusOr<int> file = LockFile(path);
  if (!file.ok() || *file < 0) close(socket);
  ZF_RETURN_IF_ERROR(file);
  if (*file < 0) return Held(dir);
  return std::unique_ptr<DirectoryLock>(new DirectoryLock(dir, path, there.st_dev, *file, socket));
}

DirectoryLock::~DirectoryLock() {
  close(file_);
  close(socket_);
}

absl::Status DirectoryLock::Replaced() const {
  return absl::AlreadyExistsError(absl::StrCat(dir_, " was replaced while it was in use"));
}

absl::StatusOr<bool> DirectoryLock::Renew() {
  struct stat ours, there;
  if (fstat(file_, &ours) != 0) return false;
  if (stat(path_.c_str(), &there) == 0) {
    if (ours.st_dev == there.st_dev && ours.st_ino == there.st_ino) return false;
    return Replaced();
  }
  if (errno != ENOENT && errno != ENOTDIR) return false;
  if (!IsOnDevice(path_, device_)) return Replaced();
  ZF_RETURN_IF_ERROR(CreateDirectories(ParentOf(path_)));
  ZF_ASSIGN_OR_RETURN(const int file, LockFile(path_));
  if (file < 0) return Replaced();
  close(std::exchange(file_, file));
  return true;
}

}  // namespace zerofleet
