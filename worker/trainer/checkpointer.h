// Saving in the background, while the next steps run: from a snapshot of the owned state in memory (snapshot.h), or
// from the states themselves (state_pieces.h). Both write the same bytes.
//
// With a snapshot, the step waits only while the state is copied (K bytes per owned parameter, 12 with AdamW), and for
// an earlier write that is still in progress. The first save also reserves the snapshot's memory: on a GPU's host it is
// pinned, which takes seconds for tens of GB; a run that never saves goes without. The snapshot belongs to one step
// from copy to fsync, so a file never mixes two steps. It holds that step until the next save, so the run may return to
// that step without reading the file.
//
// With the states themselves, nothing is copied; the next update waits for what is not written yet, but not for the
// fsync.
#ifndef ZEROFLEET_WORKER_TRAINER_CHECKPOINTER_H_
#define ZEROFLEET_WORKER_TRAINER_CHECKPOINTER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "base/clock.h"
#include "worker/device/device.h"
#include "worker/memory/arena.h"
#include "worker/trainer/save_meter.h"
#include "worker/trainer/snapshot.h"
#include "worker/trainer/state_pieces.h"
#include "worker/zero/layout.h"
#include "worker/zero/training_state.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::trainer {

// What writing from the states needs: nothing where the host reads them, otherwise a stream and a buffer as for
// StatePieces.
struct LiveStates {
  std::unique_ptr<device::Stream> copies;
  std::span<std::byte> staging;
};

class Checkpointer {
 public:
  // `snapshot` has entered the view of `host_arena`; with `live` it is not used. `meter` is told how far a write is.
  Checkpointer(int rank, const zero::ZeroLayout& layout, zero::TrainingState& state, device::Device& device,
               device::Stream& stream, memory::Arena& host_arena, Snapshot& snapshot, const Clock& clock,
               std::optional<LiveStates> live = std::nullopt,
               std::shared_ptr<SaveMeter> meter = std::make_shared<SaveMeter>());
  ~Checkpointer();  // waits for the write in progress; one from the states is cancelled and ends at once

  // Whether the next save reserves memory first. A GPU's driver may wait for the device to be idle then, so no
  // collective should be in flight.
  bool MustReserve() const { return !live_ && !snapshot_.reserved(); }

  // Writes this rank's file into `partial_dir` in the background, from a snapshot that is taken now, or from the
  // states. `written` is called with the outcome from the writing thread, or from the calling one if the snapshot's
  // memory could not be reserved; the save has then failed as after a failed write. Returns the seconds for which the
  // caller was blocked; the outcome adds those for which the update was. Both include `waited`, the seconds for which
  // the previous save had already blocked the caller.
  absl::StatusOr<double> Save(const std::string& partial_dir, const v1::CheckpointManifest& manifest,
                              std::function<void(v1::ShardWritten)> written, double waited = 0);

 private:
  // Copies the state that `manifest` describes to the snapshot.
  absl::Status TakeSnapshot(const v1::CheckpointManifest& manifest);
  void Write(const std::string& partial_dir, v1::ShardWritten outcome,
             const std::function<void(v1::ShardWritten)>& written);
  absl::StatusOr<v1::ShardFile> WriteFile(const std::string& partial_dir);

  const int rank_;  // rank of the view
  const zero::ZeroLayout& layout_;
  zero::TrainingState& state_;
  device::Device& device_;
  device::Stream& stream_;
  memory::Arena& host_arena_;
  Snapshot& snapshot_;
  const Clock& clock_;
  const std::optional<LiveStates> live_;
  const std::shared_ptr<SaveMeter> meter_;
  std::atomic<bool> stopping_ = false;
  std::optional<StatePieces> pieces_;  // the write in progress's
  std::thread writer_;
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_CHECKPOINTER_H_
