// What the ranks of one node see of each other without messages: a small segment of memory per rank, which that rank
// writes and the others map read-only, and reads out of a peer's own memory (process_vm_readv).
//
// The segment is a memfd, so it has no name, takes nothing of /dev/shm and goes with the processes that map it. A peer
// opens it through /proc/PID/fd. That takes one kernel, one PID namespace and one user, which NodeOf compares; what
// else may forbid it (a security module) is found when it is opened.
//
// A segment says where it is and what its nonce is in the rank's address, which comes from the coordinator. Whoever
// opens it looks for the nonce in the segment and in the memory of the process: both are then the rank's.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_NODE_SEGMENT_H_
#define ZEROFLEET_WORKER_COLLECTIVE_NODE_SEGMENT_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/collective/peer_proof.h"
#include "zerofleet/v1/collective.pb.h"

namespace zerofleet::collective {

// What a rank contributes to an operation. Operation, count and width must be the same on every rank.
struct NodeCall {
  uint64_t operation = 0;
  int64_t count = 0, element_bytes = 0;
  uint64_t address = 0;  // of the buffer in the rank's memory; 0: it is in `copies` of the segment

  bool Matches(const NodeCall& other) const {
    return operation == other.operation && count == other.count && element_bytes == other.element_bytes;
  }
};

// Buffers up to this size are copied into the segment, which costs no system call.
inline constexpr int64_t kNodeCopyBytes = 64 << 10;

// The layout of a segment. Operations are counted from 1; operation k uses call and copy k % 2.
struct NodeBoard {
  Nonce nonce;
  // Written together: how many operations the rank has begun, so that its call may be read; in how many it has read all
  // that it wants of its peers. The bell is what others sleep on, and changes with both.
  alignas(64) std::atomic<uint64_t> begun;
  std::atomic<uint64_t> done;
  std::atomic<uint32_t> bell;
  std::atomic<uint32_t> withdrawn;  // 1: its buffers are its owner's again, whatever its calls say
  alignas(64) std::atomic<uint32_t> sleeping;
  alignas(64) std::array<NodeCall, 2> calls;
  alignas(64) std::array<std::array<std::byte, kNodeCopyBytes>, 2> copies;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// This rank's.
class NodeSegment {
 public:
  // Unavailable, saying what the system refuses.
  static absl::StatusOr<std::unique_ptr<NodeSegment>> Create();
  ~NodeSegment();
  NodeSegment(const NodeSegment&) = delete;

  NodeBoard& board() { return *board_; }
  // Where it is, for an address.
  v1::NodeAddress address() const;
  // Wakes whoever sleeps on the bell.
  void Wake();

 private:
  NodeSegment(int descriptor, NodeBoard* board) : descriptor_(descriptor), board_(board) {}

  const int descriptor_;
  NodeBoard* const board_;
};

// Another rank's.
class PeerSegment {
 public:
  // Unavailable, saying what the system refuses or does not find.
  static absl::StatusOr<std::unique_ptr<PeerSegment>> Open(const v1::NodeAddress& address);
  ~PeerSegment();
  PeerSegment(const PeerSegment&) = delete;

  const NodeBoard& board() const { return *board_; }
  // Copies from the peer's memory. Unavailable when the peer has ended, or has withdrawn its buffers before all was
  // read: what has arrived is then of no use.
  absl::Status Read(void* to, uint64_t from, int64_t bytes) const;
  // Whether the peer's process has ended.
  bool HasEnded() const;
  // Returns when its bell is not `seen` any more, after `limit` at the latest.
  void SleepWhile(uint32_t seen, absl::Duration limit) const;

 private:
  PeerSegment(int process, int pid, const NodeBoard* board) : process_(process), pid_(pid), board_(board) {}

  const int process_;  // a descriptor of the process, so that its number is nobody else's as long as it lives
  const int pid_;
  const NodeBoard* const board_;
};

// The kernel, PID namespace and user of this process: where they are equal, processes may read each other's memory.
// Empty where they cannot be told.
std::string NodeOf();

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_NODE_SEGMENT_H_
