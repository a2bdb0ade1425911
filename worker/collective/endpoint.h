// Where a process can be reached for collectives, made before it belongs to a group.
//
// A worker makes its endpoint for the names of the groups that it will be in, sends the address along when it joins,
// learns every rank's address from the coordinator, and makes each group's communicator from the endpoint. Groups share
// nothing but the process: each has connections of its own, so that neither waits for the other nor fails with it. A
// new generation starts with a new endpoint.
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

// How a rank tells the others of its view from anybody else who reaches its port (peer_proof.h; over UCX alone).
struct PeerTrust {
  std::string key;  // of the view, from the coordinator; the same on every rank
  // Called for each peer that did not prove that it has the key, with a line for people; from the thread that connects.
  std::function<void(const std::string& line)> refused = [](const std::string&) {};
  // Called, from that thread too, with a line for people when the ranks connect by another way than backend() said.
  std::function<void(const std::string& line)> notice = [](const std::string&) {};
};

// A group as one of its ranks joins it. All but `rank` and the functions of `trust` must be the same on every rank.
struct CollectiveGroup {
  std::string name;  // one of those that the ranks' endpoints were made for
  int rank = 0;
  std::vector<std::string> addresses = {};  // of the ranks' endpoints, by rank; their number is the group's size
  uint64_t generation = 0;
  // Consecutive ranks per team, which fix the order of summation (topology.h); the last team may be shorter. 0 or the
  // group's size: all ranks are one team.
  int team = 0;
  // Which node each rank is on, for routing only: it changes no bit of a result. Empty: all are on one.
  std::vector<int> nodes = {};
  PeerTrust trust = {};

  int size() const { return static_cast<int>(addresses.size()); }
};

// InvalidArgument, naming the group, when the description contradicts itself: no ranks, a rank that is not among them,
// a negative team, or nodes of another number of ranks.
absl::Status CheckGroup(const CollectiveGroup& group);

// The topology of a group that CheckGroup accepts.
Topology TopologyOf(const CollectiveGroup& group);

class CollectiveEndpoint {
 public:
  virtual ~CollectiveEndpoint() = default;

  virtual std::string backend() const = 0;  // as Communicator::backend
  virtual std::string address() const = 0;  // bytes for the peers
  // After a Join: why `auto` did not take its first choice, in a few words; empty where it did.
  virtual std::string fallback_reason() const { return ""; }

  // The communicator of group.rank; once for each name. This process's own address must be the rank's. Does not wait
  // for peers: connections are made by the first operation. The generation is part of every message, so that one of
  // another generation is never taken for one of this. InvalidArgument for a group that CheckGroup refuses and for
  // addresses that are malformed or not those of this backend, FailedPrecondition for a second time.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Join(const CollectiveGroup& group) = 0;
};

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_ENDPOINT_H_
