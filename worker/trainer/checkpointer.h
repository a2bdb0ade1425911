// Saving without delaying steps: a snapshot of the owned state in memory (snapshot.h), written in the background during
// the next steps.
//
// The step waits only while the snapshot is copied (K bytes per owned parameter, 12 with AdamW), and for an earlier
// write that is still in progress. The first save also reserves the snapshot's memory: on a GPU's host it is pinned,
// which takes seconds for tens of GB, and which a run that never saves does without. The snapshot belongs to one step
// from copy to fsync, so a file never mixes two steps, and it holds that step until the next save: the run may return
// to it without reading the file.
#ifndef ZEROFLEET_WORKER_TRAINER_CHECKPOINTER_H_
#define ZEROFLEET_WORKER_TRAINER_CHECKPOINTER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "base/clock.h"
#include "worker/device/device.h"
#include "worker/memory/arena.h"
#include "worker/trainer/snapshot.h"
#include "worker/zero/layout.h"
#include "worker/zero/training_state.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::trainer {

class Checkpointer {
 public:
  // `snapshot` is in the view of `host_arena`.
  Checkpointer(int rank, const zero::ZeroLayout& layout, const zero::TrainingState& state, device::Device& device,
               device::Stream& stream, memory::Arena& host_arena, Snapshot& snapshot, const Clock& clock);
  ~Checkpointer();  // waits for the write in progress

  // Whether the next save reserves memory first. A GPU's driver may wait for the device to be idle then, so no
  // collective should be in flight.
  bool MustReserve() const { return !snapshot_.reserved(); }

  // Snapshots now and writes this rank's file into `partial_dir` in the background; `written` is called with the
  // outcome from the writing thread, or from this one if the snapshot's memory could not be reserved, which is a
  // failure of this save like a failed write. Returns the seconds for which the caller was blocked.
  absl::StatusOr<double> Save(const std::string& partial_dir, const v1::CheckpointManifest& manifest,
                              std::function<void(v1::ShardWritten)> written);

 private:
  void Write(const std::string& partial_dir, v1::ShardWritten outcome,
             const std::function<void(v1::ShardWritten)>& written);

  const int rank_;  // of the view
  const zero::ZeroLayout& layout_;
  const zero::TrainingState& state_;
  device::Device& device_;
  device::Stream& stream_;
  memory::Arena& host_arena_;
  Snapshot& snapshot_;
  const Clock& clock_;
  std::thread writer_;
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_CHECKPOINTER_H_
