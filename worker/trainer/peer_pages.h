// How a rank learns the addresses of the others in its view: from its assignment, or, in a view too large for that, by
// requesting those that it will reach, some at a time.
#ifndef ZEROFLEET_WORKER_TRAINER_PEER_PAGES_H_
#define ZEROFLEET_WORKER_TRAINER_PEER_PAGES_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/parallel/mesh.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::trainer {

// Indexed by rank; empty for a rank that is in no group of this rank.
struct PeerAddresses {
  std::vector<std::string> transport;
  std::string replica_holder;  // the service address of the rank that keeps copies of this one's snapshots
};

// Returns the coordinator's answer. A request is for at most coordinator::kMostPeersWanted ranks, and there is only one
// at a time, so neither side holds more than that for the other.
using AskForPeers = std::function<absl::StatusOr<v1::Peers>(const v1::PeersWanted& wanted)>;

// The addresses of all ranks in the groups of `mesh`, which is that of the assignment. Returns the errors of `ask`;
// Internal if the coordinator leaves a rank out.
absl::StatusOr<PeerAddresses> PeersOf(const v1::Assignment& assignment, const parallel::Mesh& mesh,
                                      const AskForPeers& ask);

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_PEER_PAGES_H_
