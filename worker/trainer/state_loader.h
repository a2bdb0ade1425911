// Where a rank's training state comes from when it enters a view: a checkpoint, the snapshot that its last save has
// left in memory, a snapshot taken at intervals, a peer's copy, or other weights.
#ifndef ZEROFLEET_WORKER_TRAINER_STATE_LOADER_H_
#define ZEROFLEET_WORKER_TRAINER_STATE_LOADER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/checkpoint/manifest.h"
#include "worker/device/device.h"
#include "worker/device/step_control.h"
#include "worker/model/spec.h"
#include "worker/trainer/data_feed.h"
#include "worker/trainer/environment.h"
#include "worker/trainer/snapshot.h"
#include "worker/trainer/snapshot_store.h"
#include "worker/trainer/snapshot_transfer.h"
#include "worker/trainer/view_parts.h"
#include "zerofleet/v1/checkpoint.pb.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::trainer {

enum class LoadedFrom { kStorage, kMemory };

// Whether `saved` holds what a file of this committed checkpoint holds: it has the same step and generation, and its
// file is among the checkpoint's, byte for byte by the digest, with these ranges (PartitionMap::StoredRanges) of this
// part of the model. Only then may a rank that owns the ranges return to the checkpoint without reading.
bool IsIn(const Snapshot& saved, const v1::CheckpointManifest& committed, const model::ModelPart& part,
          const std::vector<coordinator::PlacedRange>& ranges);

// No collective runs, so ranks may fail independently. What was loaded is noted in the view's parts. Everything passed
// to the constructor must outlive this object.
class StateLoader {
 public:
  StateLoader(const v1::Config& config, const model::ModelSpec& whole_model, device::Device& device,
              const DataFeed& feed, const Environment& arithmetic, Snapshot& saved, SnapshotStore& snapshots,
              ViewParts& view)
      : config_(config),
        spec_(whole_model),
        device_(device),
        feed_(feed),
        arithmetic_(arithmetic),
        saved_(saved),
        snapshots_(snapshots),
        view_(view) {}

  // Loads this rank's part of the checkpoint that was committed to `step_dir`. Reads no shard if the snapshot of the
  // last save is all that this rank needs of it and is unchanged; `note` is called with a line if it has changed. Rank
  // 0 also calls `note` if the data, or what it computes with, differ from the checkpoint's. Other data are
  // FailedPrecondition on any rank with data.on_change: refuse, unless they only grew.
  absl::StatusOr<LoadedFrom> Load(const std::string& step_dir, const checkpoint::ManifestIdentity& committed,
                                  const std::function<void(const std::string&)>& note);
  // Loads the weights of a checkpoint, of any step and optimizer, for a run that begins at step 0; everything else is
  // as in a run that begins from the seed.
  absl::Status LoadWeights(const std::string& step_dir);
  // Loads this rank's part of a snapshot from its store. NotFound if it is not there, DataLoss if it has changed.
  absl::Status Restore(const v1::SnapshotId& snapshot);
  // The same from a peer, without the store: `get` fetches the part, as SnapshotPeers::Get does. After an error the
  // state must be loaded from elsewhere.
  absl::Status RestoreFromPeer(const v1::SnapshotId& snapshot,
                               const std::function<absl::Status(const v1::SnapshotShard&, IncomingSnapshot&)>& get);

 private:
  absl::Status HasLoaded(const v1::ReplicaHeader& part);
  // OutOfRange where the frozen weights that were read are not those that `state` was trained with.
  absl::Status CheckBase(const v1::CheckpointManifest& manifest, const std::string& state) const;
  // Compares the data with the checkpoint's; every rank compares what it reads itself.
  absl::Status CheckData(const v1::CheckpointManifest& manifest, const std::string& step_dir,
                         const std::function<void(const std::string&)>& note) const;
  // Rank 0 notes what decides bits and has changed since the checkpoint was written: what it computes with and, in the
  // order of samples, the size of a micro-batch and how the model is divided.
  void NoteOtherBits(const v1::CheckpointManifest& manifest, const std::string& step_dir,
                     const std::function<void(const std::string&)>& note) const;
  // Rank 0 notes that an average of the weights begins here, or ends.
  void NoteAverage(const v1::CheckpointManifest& manifest, const std::string& step_dir,
                   const std::function<void(const std::string&)>& note) const;
  // Loads the weights of frozen units that rest with this rank, from config.init_from.
  absl::Status LoadFrozen();
  // With `with_states` false, the optimizer's states become those of step 0 instead of the checkpoint's.
  absl::Status ReadShards(const std::string& step_dir, const v1::CheckpointManifest& manifest, bool with_states);
  // From a checkpoint of another precision the counts are kept, and the loss scale starts at its first value.
  device::StepControl ControlOf(const v1::CheckpointManifest& manifest) const;

  const v1::Config& config_;
  const model::ModelSpec& spec_;
  device::Device& device_;
  const DataFeed& feed_;
  const Environment& arithmetic_;
  Snapshot& saved_;
  SnapshotStore& snapshots_;
  ViewParts& view_;
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_STATE_LOADER_H_
