// How a worker reaches the snapshots of other workers: services/ does it over gRPC, tests in memory.
#ifndef ZEROFLEET_WORKER_TRAINER_SNAPSHOT_PEERS_H_
#define ZEROFLEET_WORKER_TRAINER_SNAPSHOT_PEERS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "worker/trainer/snapshot_transfer.h"

namespace zerofleet::trainer {

// Thread-safe. `generation` is that of the view for which a call is made; once that view is over, calls return
// Unavailable or Aborted.
class SnapshotPeers {
 public:
  virtual ~SnapshotPeers() = default;

  // Sends the snapshot to the worker whose service is at `address`; returns the peer's answer once the peer holds it,
  // or DeadlineExceeded after `limit_seconds`.
  virtual absl::Status Put(const std::string& address, uint64_t generation, double limit_seconds,
                           OutgoingSnapshot& snapshot) = 0;
  // Fetches `shard` from that worker.
  virtual absl::Status Get(const std::string& address, uint64_t generation, double limit_seconds,
                           const v1::SnapshotShard& shard, IncomingSnapshot& snapshot) = 0;

  // Called by any thread when the views of earlier generations are over: ends their calls, now or when they are made.
  virtual void EndViewsBefore(uint64_t generation) = 0;
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_SNAPSHOT_PEERS_H_
