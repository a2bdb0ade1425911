// Who holds a checkpoint directory, recorded in the directory itself: the safeguard where a lock keeps nobody out.
//
// flock is local to a node on several shared file systems, and NFSv4 takes a lock back from a client that was cut off
// without telling it. Two coordinators may then both believe that they hold the directory. So each of them writes the
// file ".epoch" when it begins, with an epoch one greater than it finds there, and before a coordinator changes the
// directory it checks that the file is still its own: the newest coordinator wins, and the others stop.
//
// {"format_version": 1, "epoch": 7, "generation": 3, "host": "n1", "pid": 8113, "incarnation": "5c1f...",
//  "since_unix_seconds": 1764000000}
#ifndef ZEROFLEET_SERVICES_STORAGE_DIRECTORY_EPOCH_H_
#define ZEROFLEET_SERVICES_STORAGE_DIRECTORY_EPOCH_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/storage/directory_holder.h"

namespace zerofleet::services {

inline constexpr char kEpochName[] = ".epoch";

// The contents of `dir`'s file, checked. NotFound if there is none; DataLoss, saying what to do, for a file that no
// coordinator writes or that a later release wrote; Unavailable if it cannot be read.
absl::StatusOr<DirectoryHolder> ReadDirectoryHolder(const std::string& dir);

// Thread-safe, except Restore, which is for one thread at a time.
class DirectoryEpoch {
 public:
  // Takes over `dir` from its holder; durable once it returns. DataLoss for a file there that is not understood, which
  // is left as it is. AlreadyExists if another coordinator has taken over the directory at the same moment.
  static absl::StatusOr<std::unique_ptr<DirectoryEpoch>> Claim(const std::string& dir, uint64_t generation,
                                                               absl::Time now);

  // OK while the directory is this coordinator's. AlreadyExists, naming the holder and since when, if it is another's.
  // Any other error says why that is not known; the directory must not be changed then.
  absl::Status Check() const;

  // Writes the file again if it is gone, alone or with the directory; then as Check.
  absl::Status Restore() const;

 private:
  DirectoryEpoch(std::string dir, DirectoryHolder self) : dir_(std::move(dir)), self_(std::move(self)) {}

  absl::Status Write() const;

  const std::string dir_;
  const DirectoryHolder self_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_STORAGE_DIRECTORY_EPOCH_H_
