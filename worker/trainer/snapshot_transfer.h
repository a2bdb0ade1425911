// A part of a snapshot on its way from one worker to another, as pieces: a header, its bytes in order, their digest.
//
// The same two ends serve both directions: a rank sends a copy to the one that keeps it, and a replacement asks for
// what the lost rank had. Bytes: the part's own, 12 per parameter that the rank owns with AdamW, and some 1 KB.
#ifndef ZEROFLEET_WORKER_TRAINER_SNAPSHOT_TRANSFER_H_
#define ZEROFLEET_WORKER_TRAINER_SNAPSHOT_TRANSFER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/digest.h"
#include "worker/trainer/snapshot_store.h"
#include "zerofleet/v1/coordinator.pb.h"
#include "zerofleet/v1/worker.pb.h"

namespace zerofleet::trainer {

inline constexpr int64_t kSnapshotPieceBytes = int64_t{1} << 20;

// The pieces of one part that a store holds, one after another.
class OutgoingSnapshot {
 public:
  OutgoingSnapshot(const SnapshotStore& store, v1::SnapshotShard shard) : store_(store), shard_(std::move(shard)) {}

  // Nothing after the last. NotFound if the part is not held (any more).
  absl::StatusOr<std::optional<v1::ReplicaPiece>> Next();

 private:
  const SnapshotStore& store_;
  const v1::SnapshotShard shard_;
  std::optional<SnapshotStore::Description> description_;  // once the header has been given
  int64_t offset_ = 0;
  bool over_ = false;
};

// The other end. What comes is not believed: an error says what is wrong with a piece, and ends the transfer.
class IncomingSnapshot {
 public:
  // A copy that another rank sends.
  explicit IncomingSnapshot(SnapshotStore& store) : store_(store) {}
  // This rank's own part, which it has asked for.
  IncomingSnapshot(SnapshotStore& store, v1::SnapshotShard wanted) : store_(store), wanted_(std::move(wanted)) {}

  absl::Status Take(const v1::ReplicaPiece& piece);
  // Whether all has come, and is held now.
  bool complete() const { return complete_; }

 private:
  absl::Status Begin(const v1::ReplicaHeader& header);

  SnapshotStore& store_;
  const std::optional<v1::SnapshotShard> wanted_;
  std::optional<uint64_t> transfer_;  // once the header has come
  bool complete_ = false;
  StreamingDigest digest_;
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_SNAPSHOT_TRANSFER_H_
