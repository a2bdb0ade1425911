// How the ranks of one node share data without messages: each rank has a small memory segment, which it writes and the
// others map read-only, and each may read a peer's own memory (process_vm_readv).
//
// The segment is a memfd, so it has no name, takes no space in /dev/shm and disappears with the processes that map it.
// A peer opens it through /proc/PID/fd, which requires the same kernel, PID namespace and user: NodeOf identifies them.
// What else may forbid it (a security module) shows when it is opened.
//
// The rank's address, which peers get from the coordinator, says where the segment is and which nonce it holds. A peer
// that opens the segment looks for the nonce both in it and in the memory of the process, and so knows that both are
// the rank's.
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

// What a rank contributes to an operation. operation, count and element_bytes must be the same on every rank.
struct NodeCall {
  uint64_t operation = 0;
  int64_t count = 0, element_bytes = 0;
  uint64_t address = 0;  // the buffer's, in the rank's memory; 0: the buffer is in the segment's `copies`

  bool Matches(const NodeCall& other) const {
    return operation == other.operation && count == other.count && element_bytes == other.element_bytes;
  }
};

// Buffers up to this size are copied into the segment, which costs no system call.
inline constexpr int64_t kNodeCopyBytes = 64 << 10;

// The layout of a segment. Operations are counted from 1; operation k uses calls[k % 2] and copies[k % 2].
struct NodeBoard {
  Nonce nonce;
  // `begun`: how many operations the rank has begun, whose calls may be read. `done`: in how many it has read
  // everything that it needs from its peers. `bell` changes with both; peers sleep on it.
  alignas(64) std::atomic<uint64_t> begun;
  std::atomic<uint64_t> done;
  std::atomic<uint32_t> bell;
  std::atomic<uint32_t> withdrawn;  // 1: the buffers belong to their owner again, whatever `calls` says
  alignas(64) std::atomic<uint32_t> sleeping;
  alignas(64) std::array<NodeCall, 2> calls;
  alignas(64) std::array<std::array<std::byte, kNodeCopyBytes>, 2> copies;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// This rank's segment.
class NodeSegment {
 public:
  // Unavailable, with what the system refuses.
  static absl::StatusOr<std::unique_ptr<NodeSegment>> Create();
  ~NodeSegment();
  NodeSegment(const NodeSegment&) = delete;

  NodeBoard& board() { return *board_; }
  // Where the segment is, for the rank's address.
  v1::NodeAddress address() const;
  // Wakes whoever sleeps on the bell.
  void Wake();

 private:
  NodeSegment(int descriptor, NodeBoard* board) : descriptor_(descriptor), board_(board) {}

  const int descriptor_;
  NodeBoard* const board_;
};

// Another rank's segment.
class PeerSegment {
 public:
  // Unavailable, with what the system refuses or does not find.
  static absl::StatusOr<std::unique_ptr<PeerSegment>> Open(const v1::NodeAddress& address);
  ~PeerSegment();
  PeerSegment(const PeerSegment&) = delete;

  const NodeBoard& board() const { return *board_; }
  // Copies from the peer's memory. Unavailable when the peer has ended, or withdrew its buffers before everything was
  // read: the copied bytes are then worthless.
  absl::Status Read(void* to, uint64_t from, int64_t bytes) const;
  // Whether the peer's process has ended.
  bool HasEnded() const;
  // Returns when the peer's bell differs from `seen`, after `limit` at the latest.
  void SleepWhile(uint32_t seen, absl::Duration limit) const;

 private:
  PeerSegment(int process, int pid, const NodeBoard* board) : process_(process), pid_(pid), board_(board) {}

  const int process_;  // a pidfd, which says whether pid_ is still that process
  const int pid_;
  const NodeBoard* const board_;
};

// The kernel, PID namespace and user of this process: where they are equal, processes may read each other's memory.
// Empty where they cannot be determined.
std::string NodeOf();

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_NODE_SEGMENT_H_
