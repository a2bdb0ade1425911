// Holds the update back from states that a save has not read yet, where the save writes from the live states.
//
// A rank's file has the state vectors one after another, each from front to back (worker/checkpoint/shard_format.h), so
// the update may change an element, in all vectors, once the last vector has been read beyond it. The gate keeps the
// read position as an offset into the vectors.
#ifndef ZEROFLEET_WORKER_ZERO_SAVE_GATE_H_
#define ZEROFLEET_WORKER_ZERO_SAVE_GATE_H_

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "coordinator/partition.h"

namespace zerofleet::zero {

// Thread-safe, for one save and one update at a time. Whoever closes the gate opens it again, even if the save fails.
class SaveGate {
 public:
  explicit SaveGate(const Clock& clock = Clock::Real()) : clock_(clock) {}

  // From now on no element of `ranges` may change. They are TrainingState::RangesToStore: their offsets are those in
  // the vectors.
  void Close(std::vector<coordinator::PlacedRange> ranges);
  // The last vector has been read up to `offset`.
  void OpenTo(int64_t offset);
  // The save reads nothing any more. Returns the seconds for which the update has waited since Close.
  double Open();
  bool closed() const;
  bool holding() const;  // whether an update waits

  // Called before elements [offset, offset + count) of the vectors are overwritten: waits until the save has read those
  // of them that it stores.
  void Await(int64_t offset, int64_t count);

 private:
  // The end of the last element in [offset, offset + count) that the save stores; 0 if it stores none.
  int64_t LastStored(int64_t offset, int64_t count) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LetGo() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);  // releases an update that need not wait any longer

  const Clock& clock_;
  mutable absl::Mutex mutex_;
  std::vector<coordinator::PlacedRange> ranges_ ABSL_GUARDED_BY(mutex_);  // empty while the gate is open
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t read_to_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t awaited_ ABSL_GUARDED_BY(mutex_) = 0;  // the read_to_ that an update waits for; 0: none waits
  double awaited_since_ ABSL_GUARDED_BY(mutex_) = 0, waited_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_SAVE_GATE_H_
