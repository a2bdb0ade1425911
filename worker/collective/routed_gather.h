// An all-gather over the routes that topology.h defines, over any transport that moves messages between ranks: a shard
// enters every other node once and is passed on to the other ranks there within the node.
//
// On one node each rank sends its shard to every other at once. On several, a shard moves in chunks, so that one chunk
// is passed on while the next arrives: what step s receives from other nodes is passed on in step s + kExchangeDepth.
// Whatever the routes, every rank receives every shard once, directly into its place.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_ROUTED_GATHER_H_
#define ZEROFLEET_WORKER_COLLECTIVE_ROUTED_GATHER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "worker/collective/exchange.h"
#include "worker/collective/topology.h"

namespace zerofleet::collective {

class RoutedGather {
 public:
  explicit RoutedGather(const Topology& topology);

  // Fills `full` from every rank's shard. `shard` is this rank's shard, in its place in `full` or elsewhere.
  absl::Status Run(ExchangeTransport& transport, const std::byte* shard, std::byte* full, int64_t count,
                   int64_t element_bytes) const;

 private:
  // One shard's transfer from or to a peer.
  struct Hop {
    int peer, shard;
  };
  struct Route {
    std::vector<Hop> incoming, outgoing;
  };

  const Topology topology_;
  Route direct_, passed_on_;  // hops from a shard's owner; hops that pass a shard on within a node
};

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_ROUTED_GATHER_H_
