// How a rank comes to know the others of its view: from its assignment, or, in a view too large for that, by asking for
// those that it will reach, some at a time.
#ifndef ZEROFLEET_WORKER_TRAINER_PEER_PAGES_H_
#define ZEROFLEET_WORKER_TRAINER_PEER_PAGES_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/parallel/mesh.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::trainer {

// By rank; of a rank that is in no group of this one, empty.
struct PeerAddresses {
  std::vector<std::string> transport;
  std::string replica_holder;  // the service address of the rank that keeps copies of this one's snapshots
};

// The coordinator's answer. At most coordinator::kMostPeersWanted ranks are asked for at once, and only one question at
// a time, so that neither side holds more than that for the other.
using AskForPeers = std::function<absl::StatusOr<v1::Peers>(const v1::PeersWanted& wanted)>;

// The addresses of all ranks in the groups of `mesh`, which is that of the assignment. What `ask` returns as an error
// is returned; Internal if the coordinator leaves one out.
absl::StatusOr<PeerAddresses> PeersOf(const v1::Assignment& assignment, const parallel::Mesh& mesh,
                                      const AskForPeers& ask);

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_PEER_PAGES_H_
