// A mutex around a message; see save_meter.h.
#include "worker/trainer/save_meter.h"

namespace zerofleet::trainer {

void SaveMeter::Begin(int64_t step) {
  absl::MutexLock lock(&mutex_);
  progress_.emplace().set_step(step);
}

void SaveMeter::Add(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (progress_) progress_->set_bytes(progress_->bytes() + bytes);
}

void SaveMeter::End() {
  absl::MutexLock lock(&mutex_);
  progress_.reset();
}

std::optional<v1::SaveProgress> SaveMeter::progress() const {
  absl::MutexLock lock(&mutex_);
  return progress_;
}

}  // namespace zerofleet::trainer
