// When the ranks of a view take a snapshot, and how its copies leave.
//
// All ranks take a snapshot after the same step. A rank that has reached a later step knows that all have taken the
// last snapshot, since every step's collectives need all ranks. Where copies are kept, a rank says with each step's
// scalars whether its copy is still on its way (decision 0004 stops a run in the same way). So all ranks learn of a
// step after which no copy is, and only then overwrite the older of their two snapshots with the next. So there is
// always one step whose every part and every copy is held, without a message to the coordinator.
#ifndef ZEROFLEET_WORKER_TRAINER_SNAPSHOT_ROUNDS_H_
#define ZEROFLEET_WORKER_TRAINER_SNAPSHOT_ROUNDS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "worker/trainer/snapshot_peers.h"
#include "worker/trainer/snapshot_store.h"
#include "zerofleet/v1/config.pb.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::trainer {

// Used by one thread.
class SnapshotRounds {
 public:
  // `note` is called at most once a view, with a line for people, when a copy could not be sent although the view went
  // on. The arguments must outlive this object; without `peers` no copy is sent.
  SnapshotRounds(SnapshotStore& store, SnapshotPeers* peers, std::function<void(const std::string& line)> note)
      : store_(store), peers_(peers), note_(std::move(note)) {}
  ~SnapshotRounds() { EndView(); }

  // Called when training goes on after `step` in the view of `generation`; `holder` is the service address of the rank
  // that keeps this rank's copies, empty if none does. The first snapshot follows the next step: until then copies of
  // the last view may be lost with the ranks that kept them.
  void BeginView(const v1::Config& config, uint64_t generation, int64_t step, std::string holder);
  // Ends a transfer in progress; the last snapshot taken is sealed when this returns.
  void EndView();

  // Whether a snapshot is due after this step; it is taken if no rank was sending when the step began.
  bool Due(int64_t step) const { return every_ > 0 && step >= due_; }
  // Whether this rank's last copy is still on its way.
  bool sending() const { return sending_; }
  // Called when a snapshot was taken: seals it and sends its copy, in the background.
  void Taken(const v1::SnapshotShard& shard);

 private:
  void SealAndSend(const v1::SnapshotShard& shard);
  void NoteFailure();

  SnapshotStore& store_;
  SnapshotPeers* const peers_;
  const std::function<void(const std::string& line)> note_;
  int64_t every_ = 0, due_ = 0;
  double limit_seconds_ = 0;
  uint64_t generation_ = 0;
  std::string holder_;
  absl::Status failure_;  // the first failure in this view; owned by the sender while it runs
  bool noted_ = false;
  std::atomic<bool> sending_ = false;
  std::thread sender_;
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_SNAPSHOT_ROUNDS_H_
