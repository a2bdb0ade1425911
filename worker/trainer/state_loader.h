// Where a rank's training state comes from when it enters a view: a checkpoint, what its last save has left in memory,
// a snapshot, a peer's copy, or other weights.
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

// Whether `saved` is what a file of this committed checkpoint holds: the same step and generation, and byte for byte
// the same file by its digest, which has these ranges (PartitionMap::StoredRanges) of this part of the model. Only then
// does a rank that owns them return to the checkpoint without reading.
bool IsIn(const Snapshot& saved, const v1::CheckpointManifest& committed, const model::ModelPart& part,
          const std::vector<coordinator::PlacedRange>& ranges);

// No collective runs, so ranks may fail independently. What was loaded is noted in the view's parts. Borrows all it is
// made of, for as long as it lives.
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

  // This rank's part of the checkpoint that was committed to `step_dir`. Reads no shard if the snapshot of the last
  // save is all that this rank needs of it, and unchanged: `note` is called with a line if it is not, and with one on
  // rank 0 if the data, or what it computes with, are not those of the checkpoint. FailedPrecondition for that on any
  // rank with data.on_change: refuse, unless they only grew.
  absl::StatusOr<LoadedFrom> Load(const std::string& step_dir, const checkpoint::ManifestIdentity& committed,
                                  const std::function<void(const std::string&)>& note);
  // The weights of a checkpoint, of any step and optimizer, for a run that begins at step 0: everything else is as in a
  // run that begins from the seed.
  absl::Status LoadWeights(const std::string& step_dir);
  // This rank's part of a snapshot that is in its store. NotFound if it is not, DataLoss if it has changed.
  absl::Status Restore(const v1::SnapshotId& snapshot);
  // The same from a peer, past the store: `get` has the part come, as SnapshotPeers::Get does. After an error the state
  // must be loaded from elsewhere.
  absl::Status RestoreFromPeer(const v1::SnapshotId& snapshot,
                               const std::function<absl::Status(const v1::SnapshotShard&, IncomingSnapshot&)>& get);

 private:
  absl::Status HasLoaded(const v1::ReplicaHeader& part);
  // OutOfRange where the frozen weights that were read are not those beside which `state` was trained.
  absl::Status CheckBase(const v1::CheckpointManifest& manifest, const std::string& state) const;
  // Every rank compares what it reads itself.
  absl::Status CheckData(const v1::CheckpointManifest& manifest, const std::string& step_dir,
                         const std::function<void(const std::string&)>& note) const;
  // Rank 0 says what decides bits and is another than when the checkpoint was written: what it computes with and, in
  // the order of samples, what a micro-batch is and how the model is divided.
  void NoteOtherBits(const v1::CheckpointManifest& manifest, const std::string& step_dir,
                     const std::function<void(const std::string&)>& note) const;
  // Rank 0 says that an average of the weights begins here, or ends.
  void NoteAverage(const v1::CheckpointManifest& manifest, const std::string& step_dir,
                   const std::function<void(const std::string&)>& note) const;
  // The weights of frozen units that rest with this rank, from config.init_from.
  absl::Status LoadFrozen();
  // Without the optimizer's states, the checkpoint's, those are as at step 0.
  absl::Status ReadShards(const std::string& step_dir, const v1::CheckpointManifest& manifest, bool with_states);
  // The counts of a checkpoint of another precision are kept; the loss scale then starts anew.
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
