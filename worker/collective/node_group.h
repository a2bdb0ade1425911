// Collectives among processes of one node: every rank reads what it needs from its peers' memory (node_segment.h).
//
// An operation has three phases. Begin: the rank publishes where its buffer is. Read: it reads its peers' buffers.
// Finish: it publishes that it is done, and if its buffer was read in place, waits until all peers are done. A
// reduce-scatter reads each element that this rank sums once, an all-gather each element that it lacks; nothing is
// written to a peer's memory. Buffers up to kNodeCopyBytes are copied into the segment instead and read from there
// without a system call, and no rank waits at the end.
//
// A waiting rank polls the peer's counters for some microseconds, then sleeps on the peer's bell.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_NODE_GROUP_H_
#define ZEROFLEET_WORKER_COLLECTIVE_NODE_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/collective/communicator.h"
#include "worker/collective/node_segment.h"
#include "worker/collective/sum.h"
#include "worker/collective/topology.h"
#include "worker/device/tensor.h"

namespace zerofleet::collective {

class NodeGroup {
 public:
  // OK, or why to stop waiting; called often.
  using Interrupt = std::function<absl::Status()>;

  // Opens the segments of the other ranks; `addresses` are by rank. `scratch` (kScratchBytes, aligned to 64 bytes) must
  // outlive the group. Unavailable, naming the rank, when a segment cannot be opened.
  static absl::StatusOr<std::unique_ptr<NodeGroup>> Open(const std::string& name, const Topology& topology,
                                                         std::unique_ptr<NodeSegment> own,
                                                         const std::vector<v1::NodeAddress>& addresses,
                                                         std::byte* scratch, Interrupt interrupt);
  static constexpr int64_t kScratchBytes = 4 << 20;

  // Why the ranks with these addresses cannot read each other's memory, in a few words: the same on every rank. Empty
  // where they can.
  static std::string Obstacle(const std::vector<v1::NodeAddress>& addresses);

  // These behave as Communicator's. After an error only Withdraw may be called.
  absl::Status AllGather(const std::byte* shard, std::byte* full, int64_t count, int64_t element_bytes);
  absl::Status ReduceScatter(device::Tensor full, device::Tensor shard, int64_t count, const SumChain& chain);
  // Each rank reads and sums every rank's whole array, which takes one operation; only for arrays that AllReduces
  // accepts.
  absl::Status AllReduce(device::Tensor data, int64_t count);
  static bool AllReduces(int64_t bytes, int size) {
    return bytes <= kNodeCopyBytes && bytes * (size - 1) <= 4 * kNodeCopyBytes;
  }

  // Takes this rank out of the group: from now on peers treat its buffers as invalid, and those that wait for it give
  // up.
  void Withdraw();

 private:
  NodeGroup(std::string name, const Topology& topology, std::unique_ptr<NodeSegment> own, std::byte* scratch,
            Interrupt interrupt);

  // Publishes that this rank has arrived at its next operation, and that it contributes the `bytes` at `data`.
  absl::Status Begin(Operation operation, int64_t count, int64_t element_bytes, const std::byte* data, int64_t bytes);
  // Returns when `peer` has begun the operation in progress; an Internal error when it has begun a different one.
  absl::Status AwaitBegun(int peer);
  absl::Status Finish();
  absl::Status AwaitDone(int peer, uint64_t operation);
  // Waits until `reached`, called with the peer's board, returns true.
  absl::Status Await(int peer, absl::FunctionRef<bool(const NodeBoard& board)> reached);
  // Makes what was written to the board visible, and wakes peers that wait for it.
  void Ring();

  // Where `count` elements of what `rank` contributes, from `begin` on, can be read: in place, or copied to `scratch`.
  absl::StatusOr<const void*> Contribution(int rank, const std::byte* own, int64_t begin, int64_t count,
                                           std::byte* scratch) const;
  const NodeCall& CallOf(int peer) const { return peers_[peer]->board().calls[operation_ % 2]; }
  absl::Status AtPeer(int peer, const absl::Status& status) const;

  const std::string name_;
  const Topology topology_;
  const std::unique_ptr<NodeSegment> own_;
  std::vector<std::unique_ptr<PeerSegment>> peers_;  // by rank; null for this rank
  std::byte* const scratch_;
  const Interrupt interrupt_;
  NodeCall call_;           // what this rank contributes to the operation in progress
  uint64_t operation_ = 0;  // its number, from 1
  std::vector<const void*> contributions_;
};

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_NODE_GROUP_H_
