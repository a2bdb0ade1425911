// A directory held by one process at a time, and the means to notice that it was taken away.
#ifndef ZEROFLEET_BASE_DIRECTORY_LOCK_H_
#define ZEROFLEET_BASE_DIRECTORY_LOCK_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zerofleet {

// Two locks in one, both released when the process ends, however it ends:
//
//   - flock on the file `name` in the directory, which also holds between machines that share the directory where the
//     file system says so;
//   - an abstract socket named after the directory's canonical path, which holds on this machine even after the
//     directory was removed: a second process that makes it anew must not get in while the first still runs.
class DirectoryLock {
 public:
  // Creates `dir`. AlreadyExists if another process holds it; another error, naming the path, if it cannot be made.
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Acquire(const std::string& dir, const std::string& name);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  // NotFound, saying so, if the directory or the lock file was removed or replaced. Whatever else keeps a look at it
  // from succeeding is not a loss.
  absl::Status CheckHeld() const;

 private:
  DirectoryLock(std::string dir, std::string path, int file, int socket)
      : dir_(std::move(dir)), path_(std::move(path)), file_(file), socket_(socket) {}

  const std::string dir_, path_;
  const int file_, socket_;
};

}  // namespace zerofleet

#endif  // ZEROFLEET_BASE_DIRECTORY_LOCK_H_
