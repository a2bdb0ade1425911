// How a worker reaches the snapshots of other workers: services/ does it over gRPC, tests in memory.
#ifndef ZEROFLEET_WORKER_TRAINER_SNAPSHOT_PEERS_H_
#define ZEROFLEET_WORKER_TRAINER_SNAPSHOT_PEERS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "worker/trainer/snapshot_transfer.h"

namespace zerofleet::trainer {

// Thread-safe. `generation` is that of the view for which a call is made; Unavailable or Aborted once that is over.
class SnapshotPeers {
 public:
  virtual ~SnapshotPeers() = default;

  // Sends to the worker whose service is at `address`; returns when that holds it. What the peer answers, or
  // DeadlineExceeded after `limit_seconds`.
  virtual absl::Status Put(const std::string& address, uint64_t generation, double limit_seconds,
                           OutgoingSnapshot& snapshot) = 0;
  // Asks that worker for `shard`.
  virtual absl::Status Get(const std::string& address, uint64_t generation, double limit_seconds,
                           const v1::SnapshotShard& shard, IncomingSnapshot& snapshot) = 0;

  // The views of generations before this one are over: ends their calls, now or when they are made. Called by any
  // thread.
  virtual void EndViewsBefore(uint64_t generation) = 0;
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_SNAPSHOT_PEERS_H_
