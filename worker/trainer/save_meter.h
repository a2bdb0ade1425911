// How far the write of a shard is: noted by the writer, reported with the heartbeats, so that the coordinator can
// distinguish slow storage from storage that hangs.
#ifndef ZEROFLEET_WORKER_TRAINER_SAVE_METER_H_
#define ZEROFLEET_WORKER_TRAINER_SAVE_METER_H_

#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::trainer {

// Thread-safe.
class SaveMeter {
 public:
  void Begin(int64_t step);
  void Add(int64_t bytes);
  void End();
  // Empty while no save is being written.
  std::optional<v1::SaveProgress> progress() const;

 private:
  mutable absl::Mutex mutex_;
  std::optional<v1::SaveProgress> progress_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_SAVE_METER_H_
