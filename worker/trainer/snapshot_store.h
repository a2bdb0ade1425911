// The snapshots that a worker keeps at intervals: its own last two, and copies of another rank's last two.
//
// There are two because a snapshot counts only when every rank has it, and where copies are kept, every copy too: until
// then the previous one must be kept (snapshot_rounds.h). A view that has loaded a snapshot keeps only that one; a view
// that has loaded anything else begins with none, so that nothing is left of steps that the run has given up.
#ifndef ZEROFLEET_WORKER_TRAINER_SNAPSHOT_STORE_H_
#define ZEROFLEET_WORKER_TRAINER_SNAPSHOT_STORE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "worker/device/device.h"
#include "worker/memory/arena.h"
#include "worker/trainer/snapshot.h"
#include "worker/zero/memory_plan.h"
#include "worker/zero/training_state.h"
#include "zerofleet/v1/config.pb.h"
#include "zerofleet/v1/coordinator.pb.h"
#include "zerofleet/v1/worker.pb.h"

namespace zerofleet::trainer {

// What a worker's place in a view means for its snapshots.
struct SnapshotPlace {
  uint64_t generation = 0;
  int rank = 0, world_size = 1;
  int64_t bytes = 0;       // what this rank stores
  int64_t most_bytes = 0;  // the most that any rank stores
  int replica_owner = -1;  // the rank whose copies it keeps; -1: none
  int64_t replica_bytes = 0;
  v1::Config config = {};
};

// Which part of which snapshot `header` describes.
v1::SnapshotShard ShardOf(const v1::ReplicaHeader& header);

// Thread-safe; but only the trainer's thread calls Take, CopyTo and the functions about views, and Seal is called by it
// or by a thread that ends before the trainer's takes the next snapshot but one.
class SnapshotStore {
 public:
  // Reserves what the place needs, or keeps it from the previous view; ResourceExhausted if the host does not have it.
  absl::Status EnterView(SnapshotPlace place, memory::Arena& arena);
  // Until the next EnterView no copy is accepted. Snapshots that are held stay.
  void LeaveView();
  // Gives up all memory; called before the device is destroyed.
  void Release();

  // Takes this rank's part of the step that `manifest` (without tensors and files) describes, overwriting the older of
  // its own snapshots. It does not count as held until it is sealed.
  absl::StatusOr<v1::SnapshotShard> Take(const v1::CheckpointManifest& manifest, const zero::TrainingState& state,
                                         device::Device& device, device::Stream& stream);
  // Digests and seals a snapshot that was taken: one read of its memory, during which steps go on.
  void Seal(const v1::SnapshotShard& shard);
  // Copies this rank's whole part of the snapshot into the state; returns its header. NotFound if the part is not held.
  // DataLoss if its bytes have changed since they were sealed; it is then dropped.
  absl::StatusOr<v1::ReplicaHeader> CopyTo(const v1::SnapshotId& snapshot, zero::TrainingState& state,
                                           device::Device& device, device::Stream& stream);
  // Drops every other snapshot; without an argument all.
  void KeepOnly(const std::optional<v1::SnapshotId>& snapshot);
  // All sealed parts, its own and copies.
  std::vector<v1::SnapshotShard> Held() const;

  // What another worker reads of a sealed snapshot. NotFound if it is not held, or has been overwritten.
  struct Description {
    v1::ReplicaHeader header;
    std::string digest;  // as computed by the rank that took it
  };
  absl::StatusOr<Description> Describe(const v1::SnapshotShard& shard) const;
  // Replaces `into` by these bytes.
  absl::Status Read(const v1::SnapshotShard& shard, int64_t offset, int64_t bytes, std::string& into) const;

  // Checks that `header` describes `wanted`, the rank's own part in this view. InvalidArgument says what is wrong.
  absl::Status CheckOwn(const v1::ReplicaHeader& header, const v1::SnapshotShard& wanted) const;

  // For a worker that sends a copy of its own part: only the replica's owner may, in the view's generation and with the
  // owner's size. InvalidArgument or FailedPrecondition says what is wrong. BeginReplica returns the transfer's number;
  // a later transfer to the same slot ends this one.
  absl::StatusOr<uint64_t> BeginReplica(const v1::ReplicaHeader& header);
  absl::Status Append(uint64_t transfer, std::span<const std::byte> data);
  // Called when all has arrived; `digest` is its digest.
  absl::Status End(uint64_t transfer, const std::string& digest);

 private:
  struct Slot {
    explicit Slot(std::string row) : snapshot(std::move(row)) {}
    Snapshot snapshot;
    uint64_t transfer = 0;  // number of a copy's transfer in progress; 0: none
    v1::ReplicaHeader arriving;
    int64_t arrived = 0;  // bytes
  };
  using Slots = std::array<Slot, zero::kSnapshotsKept>;

  // The slot without a snapshot, otherwise the one with the oldest.
  static Slot& Oldest(Slots& slots);
  const Slot* Find(const v1::SnapshotShard& shard) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  absl::Status CheckHeader(const v1::ReplicaHeader& header, int rank, int64_t bytes) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Slot*> FindTransfer(uint64_t transfer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::optional<SnapshotPlace> place_ ABSL_GUARDED_BY(mutex_);
  Slots own_ ABSL_GUARDED_BY(mutex_) = {Slot(zero::OwnSnapshotRow(0)), Slot(zero::OwnSnapshotRow(1))};
  Slots replicas_ ABSL_GUARDED_BY(mutex_) = {Slot(zero::ReplicaRow(0)), Slot(zero::ReplicaRow(1))};
  uint64_t last_transfer_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_SNAPSHOT_STORE_H_
