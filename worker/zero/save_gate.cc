// One offset behind a mutex; see save_gate.h.
#include "worker/zero/save_gate.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace zerofleet::zero {

void SaveGate::Close(std::vector<coordinator::PlacedRange> ranges) {
  absl::MutexLock lock(&mutex_);
  ZF_CHECK(!closed_);
  closed_ = true;
  ranges_ = std::move(ranges);
  read_to_ = 0;
  waited_seconds_ = 0;
}

void SaveGate::OpenTo(int64_t offset) {
  absl::MutexLock lock(&mutex_);
  ZF_CHECK(closed_);
  ZF_CHECK(offset >= read_to_);
  read_to_ = offset;
  LetGo();
}

double SaveGate::Open() {
  absl::MutexLock lock(&mutex_);
  ZF_CHECK(closed_);
  closed_ = false;
  ranges_.clear();
  LetGo();
  return waited_seconds_;
}

bool SaveGate::closed() const {
  absl::MutexLock lock(&mutex_);
  return closed_;
}

bool SaveGate::holding() const {
  absl::MutexLock lock(&mutex_);
  return awaited_ != 0;
}

int64_t SaveGate::LastStored(int64_t offset, int64_t count) const {
  int64_t last = 0;
  for (const coordinator::PlacedRange& range : ranges_) {
    if (range.offset >= offset + count) continue;
    const int64_t end = std::min(range.offset + range.elements(), offset + count);
    if (end > offset) last = std::max(last, end);
  }
  return last;
}

// The wait is counted here, so that Open knows it before the update wakes.
void SaveGate::LetGo() {
  if (awaited_ == 0 || (closed_ && read_to_ < awaited_)) return;
  awaited_ = 0;
  waited_seconds_ += clock_.MonotonicSeconds() - awaited_since_;
}

void SaveGate::Await(int64_t offset, int64_t count) {
  absl::MutexLock lock(&mutex_);
  const int64_t last = LastStored(offset, count);
  if (!closed_ || read_to_ >= last) return;
  ZF_CHECK(awaited_ == 0);
  awaited_ = last;
  awaited_since_ = clock_.MonotonicSeconds();
  const auto is_read = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return awaited_ == 0; };
  mutex_.Await(absl::Condition(&is_read));
}

}  // namespace zerofleet::zero
