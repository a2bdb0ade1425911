// The rule for which of several coordinators holds a checkpoint directory. directory_epoch.h applies it to a file, the
// simulated fleet (tests/sim) to a simulated disk.
#ifndef ZEROFLEET_SERVICES_STORAGE_DIRECTORY_HOLDER_H_
#define ZEROFLEET_SERVICES_STORAGE_DIRECTORY_HOLDER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace zerofleet::services {

// What a coordinator writes into the directory when it begins.
struct DirectoryHolder {
  int64_t epoch = 1;
  uint64_t generation = 0;  // the fleet's newest that the coordinator knew when it began
  std::string host;
  int64_t pid = 0;
  std::string incarnation;  // random, one per coordinator process, since host and pid recur
  int64_t since_unix_seconds = 0;
};

// OK if `holder`, which `dir` names now, is `self`: the newest coordinator holds the directory, since each one that
// begins replaces the previous one. AlreadyExists otherwise, naming the holder and since when.
absl::Status CheckHolder(const std::string& dir, const DirectoryHolder& holder, const DirectoryHolder& self);

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_STORAGE_DIRECTORY_HOLDER_H_
