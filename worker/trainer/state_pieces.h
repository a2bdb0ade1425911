// What a rank stores of its states, piece by piece, out of the live ones: training goes on meanwhile, and its next
// update waits for what has not been read (worker/zero/save_gate.h).
//
// States in memory that the host reads are not copied: a piece is a part of them. Others pass through two buffers; one
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
  // that nobody else uses; null where the host reads the states. `stopping`, set by any thread, ends it. All is
  // borrowed, and longer lived than this.
  StatePieces(zero::TrainingState& state, device::Device& device, device::Stream* copies, std::span<std::byte> staging,
              const std::atomic<bool>& stopping);
  StatePieces(const StatePieces&) = delete;
  StatePieces& operator=(const StatePieces&) = delete;

  // The next of them, in the order of a rank's file (checkpoint::ShardPieces); the one before is given up. Empty after
  // the last: then nothing holds the update back any more. Cancelled once `stopping`.
  absl::StatusOr<std::span<const std::byte>> Next();
  // Opens the gate, however far that went: the seconds for which the update has waited.
  double End();

 private:
  struct Piece {
    std::span<const std::byte> bytes = {};
    int64_t read_to = 0;  // as of SaveGate::OpenTo, once these are read
    std::shared_ptr<device::Event> copied = nullptr;
  };

  // A part of one range of one vector, of at most `most_bytes`, behind the one before; nothing after the last.
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
  int64_t at_ = 0;               // elements of that range that Advance has passed
  int64_t advanced_to_ = 0;      // Piece::read_to of the last piece there
  int64_t given_to_ = 0;         // in place: of the piece that was given last
  std::optional<Piece> staged_;  // in a buffer, or on its way there; none before the first
  size_t free_ = 0;              // of the two buffers
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_STATE_PIECES_H_
