// What a worker is doing, for its heartbeats and its health: written by the trainer, read by any thread.
#ifndef ZEROFLEET_WORKER_TRAINER_WORKER_STATUS_H_
#define ZEROFLEET_WORKER_TRAINER_WORKER_STATUS_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "worker/parallel/group_communicators.h"
#include "worker/trainer/save_meter.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::trainer {

class WorkerStatus {
 public:
  void SetPhase(std::string phase);         // joining | loading | training | finishing
  void SetGeneration(uint64_t generation);  // the view that it has a place in
  void SetStep(int64_t step);
  void SetPace(const v1::Pace& pace);  // kept until the next SetGeneration

  void SetSaves(std::shared_ptr<const SaveMeter> saves);  // reported with heartbeats

  // Until it is called with null, progress is read from these communicators, which are the last assigned view's, and
  // EndViewsBefore ends their waits.
  void SetGroups(const parallel::GroupCommunicators* groups);
  // Called when the views of earlier generations are over: ends every wait of their communicators with `reason`, now or
  // once they are set.
  void EndViewsBefore(uint64_t generation, const absl::Status& reason);
  // Called when the fleet is lost: all views are over.
  void Abort(const absl::Status& reason) { EndViewsBefore(std::numeric_limits<uint64_t>::max(), reason); }

  std::string phase() const;
  v1::Heartbeat Heartbeat() const;

 private:
  mutable absl::Mutex mutex_;
  std::string phase_ ABSL_GUARDED_BY(mutex_) = "joining";
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t step_ ABSL_GUARDED_BY(mutex_) = 0;
  v1::Pace pace_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const SaveMeter> saves_ ABSL_GUARDED_BY(mutex_) = std::make_shared<SaveMeter>();
  const parallel::GroupCommunicators* groups_ ABSL_GUARDED_BY(mutex_) = nullptr;
  uint64_t over_before_ ABSL_GUARDED_BY(mutex_) = 0;  // the generation before which every view is over
  absl::Status over_ ABSL_GUARDED_BY(mutex_);         // why they are over

  void AddProgress(google::protobuf::RepeatedPtrField<v1::GroupProgress>* progress) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_WORKER_STATUS_H_
