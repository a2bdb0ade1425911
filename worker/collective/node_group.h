// Collectives among processes of one node: every rank reads what it needs out of its peers' memory (node_segment.h).
//
// An operation is: begin (say where this rank's buffer is), read the peers' buffers, finish (say so; a rank whose
// buffer was read where it is waits until all have). A reduce-scatter reads each element that this rank sums once, an
// all-gather each that it has not; nothing is written to a peer's memory. Buffers up to kNodeCopyBytes are copied into
// the segment instead, and read from there without a system call, and nobody waits at the end.
//
// Ranks wait by looking at the peer's counters for some microseconds, then sleep on its bell.
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

  // Opens the segments of the other ranks, whose addresses are by rank. `scratch` (of kScratchBytes, aligned to 64
  // bytes) outlives this. Unavailable when one cannot be opened, naming the rank.
  static absl::StatusOr<std::unique_ptr<NodeGroup>> Open(const std::string& name, const Topology& topology,
                                                         std::unique_ptr<NodeSegment> own,
                                                         const std::vector<v1::NodeAddress>& addresses,
                                                         std::byte* scratch, Interrupt interrupt);
  static constexpr int64_t kScratchBytes = 4 << 20;

  // Why the ranks of these addresses cannot do so, in a few words: the same on every rank. Empty where they may.
  static std::string Obstacle(const std::vector<v1::NodeAddress>& addresses);

  // As Communicator's. After an error nothing but Withdraw may follow.
  absl::Status AllGather(const std::byte* shard, std::byte* full, int64_t count, int64_t element_bytes);
  absl::Status ReduceScatter(device::Tensor full, device::Tensor shard, int64_t count, const SumChain& chain);
  // Each rank sums all that every rank gives, which costs one operation; for arrays that AllReduces accepts.
  absl::Status AllReduce(device::Tensor data, int64_t count);
  static bool AllReduces(int64_t bytes, int size) {
    return bytes <= kNodeCopyBytes && bytes * (size - 1) <= 4 * kNodeCopyBytes;
  }

  // This rank leaves: no peer takes its buffers for whole any more, and those that wait for it give up.
  void Withdraw();

 private:
  NodeGroup(std::string name, const Topology& topology, std::unique_ptr<NodeSegment> own, std::byte* scratch,
            Interrupt interrupt);

  // Says that this rank has come to its next operation, with what it contributes: `bytes` at `data`.
  absl::Status Begin(Operation operation, int64_t count, int64_t element_bytes, const std::byte* data, int64_t bytes);
  // Returns when `peer` has begun the operation; an Internal error when it runs another.
  absl::Status AwaitBegun(int peer);
  absl::Status Finish();
  absl::Status AwaitDone(int peer, uint64_t operation);
  // `reached` says whether to go on, from the peer's counters.
  absl::Status Await(int peer, absl::FunctionRef<bool(const NodeBoard& board)> reached);
  // Makes what was written to the board visible, and wakes who waits for it.
  void Ring();

  // Elements [range) of what `rank` contributes, where they can be read: in place, or read to `scratch`.
  absl::StatusOr<const void*> Contribution(int rank, const std::byte* own, int64_t begin, int64_t count,
                                           std::byte* scratch) const;
  const NodeCall& CallOf(int peer) const { return peers_[peer]->board().calls[operation_ % 2]; }
  absl::Status AtPeer(int peer, const absl::Status& status) const;

  const std::string name_;
  const Topology topology_;
  const std::unique_ptr<NodeSegment> own_;
  std::vector<std::unique_ptr<PeerSegment>> peers_;  // by rank; null for this one
  std::byte* const scratch_;
  const Interrupt interrupt_;
  NodeCall call_;           // of the operation in progress
  uint64_t operation_ = 0;  // its number
  std::vector<const void*> contributions_;
};

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_NODE_GROUP_H_
