// What a rank stores of its states, read piece by piece from the live ones: training goes on meanwhile, and its next
// update waits for what has not been read (worker/zero/save_gate.h).
//
// States in memory that the host reads are not copied: a piece points into them. Others pass through two buffers; one
// is filled while the other is written.
#ifndef ZEROFLEET_WORKER_TRAINER_STATE_PIECES_H_
#define ZEROFLEET_WORKER_TRAINER_STATE_PIECES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/partition.h"
#include "worker/device/device.h"
#include "worker/zero/training_state.h"

namespace zerofleet::trainer {

class StatePieces {
 public:
  // Closes the state's gate. `staging` is host memory from ReserveHost with room for two pieces, and `copies` a stream
  // that nobody else uses; null where the host reads the states. Setting `stopping`, from any thread, ends the reading.
  // All arguments are borrowed and must outlive this object.
  StatePieces(zero::TrainingState& state, device::Device& device, device::Stream* copies, std::span<std::byte> staging,
              const std::atomic<bool>& stopping);
  StatePieces(const StatePieces&) = delete;
  StatePieces& operator=(const StatePieces&) = delete;

  // The next piece, in the order of a rank's file (checkpoint::ShardPieces); the previous piece becomes invalid. Empty
  // after the last; then nothing holds the update back any more. Cancelled once `stopping` is set.
  absl::StatusOr<std::span<const std::byte>> Next();
  // Opens the gate, however far the reading went; returns the seconds for which the update has waited.
  double End();

 private:
  struct Piece {
    std::span<const std::byte> bytes = {};
    int64_t read_to = 0;  // SaveGate::OpenTo's argument once these bytes are read
    std::shared_ptr<device::Event> copied = nullptr;
  };

  // The next part of a range of one vector, of at most `most_bytes`; empty after the last.
  Piece Advance(int64_t most_bytes);
  absl::StatusOr<std::span<const std::byte>> NextInPlace();
  absl::StatusOr<std::span<const std::byte>> NextStaged();
  // Enqueues the copy of the next piece into the buffer that is free.
  void Stage();

  zero::TrainingState& state_;
  device::Device& device_;
  device::Stream* const copies_;
  const std::span<std::byte> staging_;
  const std::atomic<bool>& stopping_;
  const std::vector<coordinator::PlacedRange> ranges_;
  size_t vector_ = 0, range_ = 0;
  int64_t at_ = 0;               // elements of ranges_[range_] that Advance has passed
  int64_t advanced_to_ = 0;      // Piece::read_to of the piece that Advance returned last
  int64_t given_to_ = 0;         // in place: Piece::read_to of the piece that Next returned last
  std::optional<Piece> staged_;  // the piece in a buffer, or on its way there; none before the first
  size_t free_ = 0;              // which of the two buffers is free
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_STATE_PIECES_H_
