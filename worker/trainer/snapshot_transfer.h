// A part of a snapshot on its way from one worker to another, as pieces: a header, its bytes in order, their digest.
//
// The same two ends serve both directions: a rank sends a copy to the rank that keeps it, and a replacement requests
// what the lost rank had. Bytes sent: the part's own, 12 per parameter that the rank owns with AdamW, and some 1 KB.
#ifndef ZEROFLEET_WORKER_TRAINER_SNAPSHOT_TRANSFER_H_
#define ZEROFLEET_WORKER_TRAINER_SNAPSHOT_TRANSFER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

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

  // Returns nothing after the last piece. NotFound if the part is not held (any more).
  absl::StatusOr<std::optional<v1::ReplicaPiece>> Next();

 private:
  const SnapshotStore& store_;
  const v1::SnapshotShard shard_;
  std::optional<SnapshotStore::Description> description_;  // set once the header has been returned
  int64_t offset_ = 0;
  bool over_ = false;
};

// Where the bytes of a part go. An error says what is wrong with the data, and ends the transfer.
class SnapshotSink {
 public:
  virtual ~SnapshotSink() = default;
  virtual absl::Status Begin(const v1::ReplicaHeader& header) = 0;
  virtual absl::Status Append(std::span<const std::byte> data) = 0;
  // Called when all bytes have come; `digest` is their digest.
  virtual absl::Status End(const std::string& digest) = 0;
};

// Writes into a store, as the copy of another rank's part.
class ReplicaSink final : public SnapshotSink {
 public:
  explicit ReplicaSink(SnapshotStore& store) : store_(store) {}
  absl::Status Begin(const v1::ReplicaHeader& header) override;
  absl::Status Append(std::span<const std::byte> data) override { return store_.Append(transfer_, data); }
  absl::Status End(const std::string& digest) override { return store_.End(transfer_, digest); }

 private:
  SnapshotStore& store_;
  uint64_t transfer_ = 0;
};

// The receiving end. It does not trust what it receives: an error says what is wrong with a piece, and ends the
// transfer.
class IncomingSnapshot {
 public:
  explicit IncomingSnapshot(SnapshotSink& sink) : sink_(sink) {}

  absl::Status Take(const v1::ReplicaPiece& piece);
  // Whether all pieces have come and the sink has taken them.
  bool complete() const { return complete_; }

 private:
  SnapshotSink& sink_;
  bool begun_ = false, complete_ = false;
  StreamingDigest digest_;
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_SNAPSHOT_TRANSFER_H_
