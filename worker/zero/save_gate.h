// Holds the update back from what a save has not read yet, where it is written from the live states.
//
// A rank's file has one vector of the states after another, each from front to back (worker/checkpoint/shard_format.h),
// so an element may change in all of them once the last vector has been read beyond it. How far that is, the gate knows
// as an offset into the vectors.
#ifndef ZEROFLEET_WORKER_ZERO_SAVE_GATE_H_
#define ZEROFLEET_WORKER_ZERO_SAVE_GATE_H_

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "coordinator/partition.h"

namespace zerofleet::zero {

// Thread-safe, for one save and one update at a time. Whoever closes it opens it again, whatever becomes of the save.
class SaveGate {
 public:
  explicit SaveGate(const Clock& clock = Clock::Real()) : clock_(clock) {}

  // From now on nothing of these ranges may change: TrainingState::RangesToStore, by their places in the vectors.
  void Close(std::vector<coordinator::PlacedRange> ranges);
  // The last vector has been read up to `offset`.
  void OpenTo(int64_t offset);
  // Nothing is read any more. The seconds for which the update has waited since Close.
  double Open();
  bool closed() const;
  bool holding() const;  // an update waits

  // Before elements [offset, offset + count) of the vectors are overwritten: waits until the save has read what it
  // stores of them.
  void Await(int64_t offset, int64_t count);

 private:
  // Where the last element of [offset, offset + count) ends that the save stores; 0: it stores none.
  int64_t LastStored(int64_t offset, int64_t count) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LetGo() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);  // of an update that need not wait any longer

  const Clock& clock_;
  mutable absl::Mutex mutex_;
  std::vector<coordinator::PlacedRange> ranges_ ABSL_GUARDED_BY(mutex_);  // none while it is open
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t read_to_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t awaited_ ABSL_GUARDED_BY(mutex_) = 0;  // what an update waits for, as read_to_; 0: none waits
  double awaited_since_ ABSL_GUARDED_BY(mutex_) = 0, waited_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_SAVE_GATE_H_
