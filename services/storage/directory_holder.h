// Who of several coordinators holds a checkpoint directory: the rule alone. directory_epoch.h carries it out in a file;
// the simulated fleet (tests/sim) on a disk of its own.
#ifndef ZEROFLEET_SERVICES_STORAGE_DIRECTORY_HOLDER_H_
#define ZEROFLEET_SERVICES_STORAGE_DIRECTORY_HOLDER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace zerofleet::services {

// What a coordinator writes into the directory when it begins.
struct DirectoryHolder {
  int64_t epoch = 1;
  uint64_t generation = 0;  // the newest of the fleet that the coordinator knew when it began
  std::string host;
  int64_t pid = 0;
  std::string incarnation;  // random, of one coordinator process: host and pid come again
  int64_t since_unix_seconds = 0;
};

// OK if `holder`, who stands in `dir` now, is `self`: the newest holds the directory, since each that begins takes the
// place of the one before. AlreadyExists otherwise, naming the other and since when.
absl::Status CheckHolder(const std::string& dir, const DirectoryHolder& holder, const DirectoryHolder& self);

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_STORAGE_DIRECTORY_HOLDER_H_
