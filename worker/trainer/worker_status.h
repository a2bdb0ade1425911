// What a worker is doing, for its service, its heartbeats and its health: written by the trainer, read by any thread.
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
#include "zerofleet/v1/coordinator.pb.h"
#include "zerofleet/v1/worker.pb.h"

namespace zerofleet::trainer {

class WorkerStatus {
 public:
  void SetPhase(std::string phase);  // joining | loading | training | finishing
  void SetAssignment(int rank, int world_size, uint64_t generation);
  void SetStep(int64_t step);
  void SetReport(const v1::RankReport& report);

  // From here until it is set to null, progress is read from these communicators, of the view last assigned, and
  // EndViewsBefore reaches them.
  void SetGroups(const parallel::GroupCommunicators* groups);
  // The views of generations before this one are over: ends every wait of their communicators with `reason`, now or
  // once they are set.
  void EndViewsBefore(uint64_t generation, const absl::Status& reason);
  // The fleet is lost: all views are over.
  void Abort(const absl::Status& reason) { EndViewsBefore(std::numeric_limits<uint64_t>::max(), reason); }

  v1::Heartbeat Heartbeat() const;
  v1::GetWorkerStatusResponse Snapshot() const;

 private:
  mutable absl::Mutex mutex_;
  v1::GetWorkerStatusResponse status_ ABSL_GUARDED_BY(mutex_) = Initial();
  const parallel::GroupCommunicators* groups_ ABSL_GUARDED_BY(mutex_) = nullptr;
  uint64_t over_before_ ABSL_GUARDED_BY(mutex_) = 0;  // the generation before which every view is over
  absl::Status over_ ABSL_GUARDED_BY(mutex_);         // why

  static v1::GetWorkerStatusResponse Initial();
  void AddProgress(google::protobuf::RepeatedPtrField<v1::GroupProgress>* progress) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_WORKER_STATUS_H_
