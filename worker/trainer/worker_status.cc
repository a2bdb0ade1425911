// A mutex around a message; see worker_status.h.
#include "worker/trainer/worker_status.h"

#include <optional>
#include <utility>

namespace zerofleet::trainer {

void WorkerStatus::SetPhase(std::string phase) {
  absl::MutexLock lock(&mutex_);
  phase_ = std::move(phase);
}

void WorkerStatus::SetGeneration(uint64_t generation) {
  absl::MutexLock lock(&mutex_);
  generation_ = generation;
  pace_.Clear();
}

void WorkerStatus::SetStep(int64_t step) {
  absl::MutexLock lock(&mutex_);
  step_ = step;
}

void WorkerStatus::SetPace(const v1::Pace& pace) {
  absl::MutexLock lock(&mutex_);
  pace_ = pace;
}

void WorkerStatus::SetSaves(std::shared_ptr<const SaveMeter> saves) {
  absl::MutexLock lock(&mutex_);
  saves_ = std::move(saves);
}

void WorkerStatus::SetGroups(const parallel::GroupCommunicators* groups) {
  absl::MutexLock lock(&mutex_);
  groups_ = groups;
  if (groups_ != nullptr && generation_ < over_before_) groups_->Abort(over_);
}

void WorkerStatus::EndViewsBefore(uint64_t generation, const absl::Status& reason) {
  absl::MutexLock lock(&mutex_);
  if (generation <= over_before_) return;
  over_before_ = generation;
  over_ = reason;
  if (groups_ != nullptr && generation_ < over_before_) groups_->Abort(over_);
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
  heartbeat.set_step(step_);
  if (pace_.steps() > 0) *heartbeat.mutable_pace() = pace_;
  AddProgress(heartbeat.mutable_progress());
  if (std::optional<v1::SaveProgress> save = saves_->progress()) *heartbeat.mutable_save() = *std::move(save);
  return heartbeat;
}

std::string WorkerStatus::phase() const {
  absl::MutexLock lock(&mutex_);
  return phase_;
}

}  // namespace zerofleet::trainer
