// This rank's own part of a snapshot, written from a peer's memory into the state without a copy in between.
#ifndef ZEROFLEET_WORKER_TRAINER_STATE_SINK_H_
#define ZEROFLEET_WORKER_TRAINER_STATE_SINK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "worker/device/device.h"
#include "worker/trainer/snapshot_store.h"
#include "worker/trainer/snapshot_transfer.h"
#include "worker/zero/training_state.h"
#include "zerofleet/v1/coordinator.pb.h"
#include "zerofleet/v1/worker.pb.h"

namespace zerofleet::trainer {

// After an error the state must be loaded from elsewhere: part of it may have been overwritten.
class StateSink final : public SnapshotSink {
 public:
  // `store` is in the view for which `wanted` is loaded. All arguments must outlive this object.
  StateSink(const SnapshotStore& store, v1::SnapshotShard wanted, zero::TrainingState& state, device::Device& device,
            device::Stream& stream);

  absl::Status Begin(const v1::ReplicaHeader& header) override;
  absl::Status Append(std::span<const std::byte> data) override;
  absl::Status End(const std::string& digest) override;

  // The part's header, once it has begun to come.
  const v1::ReplicaHeader& header() const { return header_; }

 private:
  // Consecutive elements of one vector.
  struct Run {
    size_t vector;
    int64_t offset, elements;
  };

  const SnapshotStore& store_;
  const v1::SnapshotShard wanted_;
  zero::TrainingState& state_;
  device::Device& device_;
  device::Stream& stream_;
  v1::ReplicaHeader header_;
  std::vector<Run> missing_;  // in the reverse of the order in which they arrive
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_STATE_SINK_H_
