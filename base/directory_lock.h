// A directory held by one process at a time, also when it is removed in the meantime.
#ifndef ZEROFLEET_BASE_DIRECTORY_LOCK_H_
#define ZEROFLEET_BASE_DIRECTORY_LOCK_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace zerofleet {

// Two locks in one, both released when the process ends, however it ends:
//
//   - flock on the file `name` in the directory. Where the file system supports it, this also keeps out other machines
//     that share the directory; where the file system does not know flock (ENOSYS, EOPNOTSUPP), it keeps nobody out;
//   - an abstract socket named after the directory's canonical path. It holds on this machine even after the directory
//     was removed: a second process that creates the directory again must not get in while the first still runs.
class DirectoryLock {
 public:
  // Creates `dir`. AlreadyExists if another process still holds it after `patience`; a process that was killed takes a
  // moment to release it. Another error, naming the path, if the directory or the lock cannot be made.
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Acquire(const std::string& dir, const std::string& name,
                                                                absl::Duration patience = absl::ZeroDuration());
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  // Creates the directory and the lock file again, and locks them, if they were removed; returns whether they were.
  // AlreadyExists, saying so, if the lock is lost: something else is in their place, another process holds it, or the
  // path is on another file system now (unmounted, say). Any other error, naming the path: they could not be created
  // yet. A lock file that cannot be examined for any other reason does not count as lost: false. From one thread at a
  // time.
  absl::StatusOr<bool> Renew();

 private:
  DirectoryLock(std::string dir, std::string path, dev_t device, int file, int socket)
      : dir_(std::move(dir)), path_(std::move(path)), device_(device), file_(file), socket_(socket) {}

  static absl::StatusOr<std::unique_ptr<DirectoryLock>> TryAcquire(const std::string& dir, const std::string& name);
  absl::Status Replaced() const;

  const std::string dir_, path_;
  const dev_t device_;  // the directory's
  int file_;
  const int socket_;
};

}  // namespace zerofleet

#endif  // ZEROFLEET_BASE_DIRECTORY_LOCK_H_
