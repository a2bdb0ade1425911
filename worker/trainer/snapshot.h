// One rank's owned state at one step, in host memory: a checkpoint's file is written from it, the rank returns to it
// without storage if the run goes back to that step, and a rank keeps one for another rank.
//
// Its memory and contents outlive the view in which it was taken. It records its step and generation; whoever wants to
// return to a step compares them with what the coordinator has named.
#ifndef ZEROFLEET_WORKER_TRAINER_SNAPSHOT_H_
#define ZEROFLEET_WORKER_TRAINER_SNAPSHOT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "worker/memory/arena.h"
#include "worker/zero/training_state.h"
#include "zerofleet/v1/checkpoint.pb.h"
#include "zerofleet/v1/worker.pb.h"

namespace zerofleet::trainer {

// Not thread-safe, except that its memory may be filled while other threads ask what it holds, which is nothing then.
class Snapshot {
 public:
  // `row` is the late row of the plan that holds it.
  explicit Snapshot(std::string row) : row_(std::move(row)) {}

  // Enters a view in which the snapshot has room for `bytes`; `arena` is that of the view's plan. Memory of another
  // size is given up, with its contents; memory of this size becomes the row's again.
  void EnterView(int64_t bytes, memory::Arena& arena);

  bool reserved() const { return memory_ != nullptr; }
  // ResourceExhausted if there is not that much memory; the call may be tried again.
  absl::Status Reserve(memory::Arena& arena);
  void Release();

  // Whose state it holds, its step, and its bytes; null if it holds nothing, or nothing complete.
  const v1::ReplicaHeader* held() const { return held_ ? &*held_ : nullptr; }
  std::span<std::byte> memory() const { return {memory_->data(), static_cast<size_t>(bytes_)}; }
  void Clear();
  // Called when its memory has been filled with what `header` says.
  void Hold(v1::ReplicaHeader header) { held_ = std::move(header); }

  // Fills its memory with what this rank stores of `state`; waits for the stream. Returns the bytes filled. The
  // snapshot must hold nothing, and still holds nothing afterwards (Hold).
  absl::StatusOr<int64_t> FillFrom(const zero::TrainingState& state, device::Device& device, device::Stream& stream);
  // The XXH3-128 of all that it holds: one read of its memory.
  std::string Digest() const;
  // Seals it with this digest, computed when its memory was filled.
  void Seal(std::string digest) { seal_ = std::move(digest); }
  // Empty until it is sealed.
  const std::string& seal() const { return seal_; }
  // Copies its contents back into `state`, in a view in which this rank owns what it owned when the snapshot was taken.
  // DataLoss, with nothing copied, if the bytes are not those that were sealed.
  absl::Status CopyTo(zero::TrainingState& state, device::Device& device, device::Stream& stream) const;

  // Its `count` state vectors, as a file stores them.
  std::vector<std::span<const float>> Vectors(int count) const;
  // Called when its file, which `file` describes, is durable.
  void SetFile(v1::ShardFile file) { file_ = std::move(file); }
  // Null until the file was written.
  const v1::ShardFile* file() const { return file_ ? &*file_ : nullptr; }

 private:
  const std::string row_;
  std::shared_ptr<device::Reservation> memory_;  // null until it is reserved
  int64_t bytes_ = 0;                            // its capacity
  std::optional<v1::ReplicaHeader> held_;
  std::string seal_;
  std::optional<v1::ShardFile> file_;  // set once the file was written
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_SNAPSHOT_H_
