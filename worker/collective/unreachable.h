// Which rank of a group could not be reached, as a payload of the status that ends the operation: it goes from the
// transport to the coordinator (Failure.unreachable_rank), which has to choose whom to replace.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_UNREACHABLE_H_
#define ZEROFLEET_WORKER_COLLECTIVE_UNREACHABLE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"

namespace zerofleet::collective {

struct UnreachablePeer {
  std::string group;  // the group's name
  int peer = 0;       // the peer's rank in the group
};

// `status`, which must not be OK, with `peer` as its payload.
absl::Status WithUnreachablePeer(absl::Status status, const UnreachablePeer& peer);
// nullopt if the status names none.
std::optional<UnreachablePeer> UnreachablePeerOf(const absl::Status& status);

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_UNREACHABLE_H_
