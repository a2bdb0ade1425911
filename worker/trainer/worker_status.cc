// A mutex around a message; see worker_status.h.
#include "worker/trainer/worker_status.h"

#include <utility>

namespace zerofleet::trainer {

v1::GetWorkerStatusResponse WorkerStatus::Initial() {
  v1::GetWorkerStatusResponse status;
  status.set_rank(-1);
  status.set_phase("joining");
  return status;
}

void WorkerStatus::SetPhase(std::string phase) {
  absl::MutexLock lock(&mutex_);
  status_.set_phase(std::move(phase));
}

void WorkerStatus::SetAssignment(int rank, int world_size, uint64_t generation) {
  absl::MutexLock lock(&mutex_);
  status_.set_rank(rank);
  status_.set_world_size(world_size);
  status_.set_generation(generation);
}

void WorkerStatus::SetStep(int64_t step) {
  absl::MutexLock lock(&mutex_);
  status_.set_step(step);
}

void WorkerStatus::SetReport(const v1::RankReport& report) {
  absl::MutexLock lock(&mutex_);
  *status_.mutable_report() = report;
}

void WorkerStatus::SetGroups(const parallel::GroupCommunicators* groups) {
  absl::MutexLock lock(&mutex_);
  groups_ = groups;
  if (groups_ != nullptr && status_.generation() < over_before_) groups_->Abort(over_);
}

void WorkerStatus::EndViewsBefore(uint64_t generation, const absl::Status& reason) {
  absl::MutexLock lock(&mutex_);
  if (generation <= over_before_) return;
  over_before_ = generation;
  over_ = reason;
  if (groups_ != nullptr && status_.generation() < over_before_) groups_->Abort(over_);
}

void WorkerStatus::AddProgress(google::protobuf::RepeatedPtrField<v1::GroupProgress>* progress) const {
  if (groups_ == nullptr) return;
  for (const std::unique_ptr<collective::Communicator>& communicator : groups_->all()) {
    collective::CollectiveProgress now = communicator->progress();
    v1::GroupProgress* entry = progress->Add();
    entry->set_group(now.group);
    entry->set_sequence(now.sequence);
    entry->set_completed(now.completed);
    entry->set_operation(collective::OperationName(now.operation));
    entry->set_unit(now.unit);
  }
}

v1::Heartbeat WorkerStatus::Heartbeat() const {
  absl::MutexLock lock(&mutex_);
  v1::Heartbeat heartbeat;
  heartbeat.set_step(status_.step());
  AddProgress(heartbeat.mutable_progress());
  return heartbeat;
}

v1::GetWorkerStatusResponse WorkerStatus::Snapshot() const {
  absl::MutexLock lock(&mutex_);
  v1::GetWorkerStatusResponse snapshot = status_;
  AddProgress(snapshot.mutable_progress());
  return snapshot;
}

}  // namespace zerofleet::trainer
