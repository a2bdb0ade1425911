// Where a process can be reached for collectives, made before it belongs to a group.
//
// A worker creates its endpoint for the names of the groups that it will be in, sends the endpoint's address when it
// joins the fleet, learns every rank's address from the coordinator, and joins each group through the endpoint. Groups
// share nothing but the process: each has connections of its own, so that no group waits for another or fails with it.
// A new generation starts with a new endpoint.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_ENDPOINT_H_
#define ZEROFLEET_WORKER_COLLECTIVE_ENDPOINT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/collective/communicator.h"

namespace zerofleet::collective {

// How a rank distinguishes the ranks of its view from anybody else who reaches its port (peer_proof.h); used over UCX
// only.
struct PeerTrust {
  std::string key;  // the view's key, from the coordinator; the same on every rank
  // Called on the connecting thread, with a line for people, for each peer that did not prove that it has the key.
  std::function<void(const std::string& line)> refused = [](const std::string&) {};
  // Called on that thread too, with a line for people, when the ranks connect in another way than backend() said.
  std::function<void(const std::string& line)> notice = [](const std::string&) {};
};

// A group as one of its ranks joins it. All but `rank` and the functions of `trust` must be the same on every rank.
struct CollectiveGroup {
  std::string name;  // one of the names that the ranks' endpoints were made for
  int rank = 0;
  std::vector<std::string> addresses = {};  // the ranks' endpoints, by rank; their number is the group's size
  uint64_t generation = 0;
  // Consecutive ranks per team, which fix the order of summation (topology.h); the last team may be shorter. 0 or the
  // group's size: all ranks are one team.
  int team = 0;
  // The node of each rank, for routing only: it changes no bit of a result. Empty: all ranks are on one node.
  std::vector<int> nodes = {};
  PeerTrust trust = {};

  int size() const { return static_cast<int>(addresses.size()); }
};

// InvalidArgument, naming the group, when the description contradicts itself: no ranks, a rank that is not among them,
// a negative team, or `nodes` of another length than `addresses`.
absl::Status CheckGroup(const CollectiveGroup& group);

// The topology of a group that CheckGroup accepts.
Topology TopologyOf(const CollectiveGroup& group);

class CollectiveEndpoint {
 public:
  virtual ~CollectiveEndpoint() = default;

  virtual std::string backend() const = 0;  // as Communicator::backend
  virtual std::string address() const = 0;  // bytes to send to the peers
  // After a Join: why `auto` did not take its first choice, in a few words; empty where it did.
  virtual std::string fallback_reason() const { return ""; }

  // Creates the communicator of group.rank; once for each name. group.addresses[group.rank] must be this endpoint's
  // address. Does not wait for peers: the first operation connects. The generation is part of every message, so that
  // messages of another generation are never taken for this one's. InvalidArgument for a group that CheckGroup refuses
  // and for addresses that are malformed or from another backend, FailedPrecondition for a name joined before.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Join(const CollectiveGroup& group) = 0;
};

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_ENDPOINT_H_
