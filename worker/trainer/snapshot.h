// One rank's owned state at one step, in host memory: what a checkpoint's file is written from, what the rank returns
// to without storage if the run goes back to that step, and what it keeps for another rank.
//
// Its memory and what it holds outlive the view in which it was taken. It says of itself which step of which generation
// it is; whoever wants to return to a step compares that with what the coordinator has named.
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

// Not thread-safe, but that its memory may be filled while others ask what it holds: nothing.
class Snapshot {
 public:
  // `row` is the late row of the plan that holds it.
  explicit Snapshot(std::string row) : row_(std::move(row)) {}

  // A view in which it has room for `bytes`, with the arena of its plan. Memory of another size, and what it holds, is
  // given up; else the row has it again.
  void EnterView(int64_t bytes, memory::Arena& arena);

  bool reserved() const { return memory_ != nullptr; }
  // ResourceExhausted if the memory is not there; it may then be tried again.
  absl::Status Reserve(memory::Arena& arena);
  void Release();

  // Whose state it holds, of which step, and how many bytes; null if it holds nothing, or nothing whole.
  const v1::ReplicaHeader* held() const { return held_ ? &*held_ : nullptr; }
  std::span<std::byte> memory() const { return {memory_->data(), static_cast<size_t>(bytes_)}; }
  void Clear();
  // Its memory has been filled with what `header` says.
  void Hold(v1::ReplicaHeader header) { held_ = std::move(header); }

  // Fills its memory with what this rank stores of `state`; waits for the stream. The bytes filled. Holds nothing.
  absl::StatusOr<int64_t> FillFrom(const zero::TrainingState& state, device::Device& device, device::Stream& stream);
  // The XXH3-128 of all that it holds: one read of its memory.
  std::string Digest() const;
  // Has this digest from now on, which whoever filled its memory has seen.
  void Seal(std::string digest) { seal_ = std::move(digest); }
  // Empty until it is sealed.
  const std::string& seal() const { return seal_; }
  // The other way, in a view in which this rank owns what was owned when it was taken. DataLoss, with nothing copied,
  // if its bytes are not those that were sealed.
  absl::Status CopyTo(zero::TrainingState& state, device::Device& device, device::Stream& stream) const;

  // Its state vectors, `count` of them, as a file stores them.
  std::vector<std::span<const float>> Vectors(int count) const;
  // Its file is durable, and has these bytes.
  void SetFile(v1::ShardFile file) { file_ = std::move(file); }
  // Null until that was written.
  const v1::ShardFile* file() const { return file_ ? &*file_ : nullptr; }

 private:
  const std::string row_;
  std::shared_ptr<device::Reservation> memory_;  // null until it is reserved
  int64_t bytes_ = 0;                            // that it has room for
  std::optional<v1::ReplicaHeader> held_;
  std::string seal_;
  std::optional<v1::ShardFile> file_;  // once that was written
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_SNAPSHOT_H_
