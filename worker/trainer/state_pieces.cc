// In place, or through two buffers; see state_pieces.h.
#include "worker/trainer/state_pieces.h"

#include <algorithm>
#include <utility>

#include "base/kill_point.h"
#include "base/status.h"
#include "worker/checkpoint/shard_format.h"

namespace zerofleet::trainer {

StatePieces::StatePieces(zero::TrainingState& state, device::Device& device, device::Stream* copies,
                         std::span<std::byte> staging, const std::atomic<bool>& stopping)
    : state_(state),
      device_(device),
      copies_(copies),
      staging_(staging),
      stopping_(stopping),
      ranges_(state.RangesToStore()) {
  state_.gate().Close(ranges_);
}

absl::StatusOr<std::span<const std::byte>> StatePieces::Next() {
  if (stopping_) return absl::CancelledError("the view is being left");
  ZF_KILL_POINT("stream/piece");
  return copies_ == nullptr ? NextInPlace() : NextStaged();
}

absl::StatusOr<std::span<const std::byte>> StatePieces::NextInPlace() {
  state_.gate().OpenTo(given_to_);
  const Piece piece = Advance(checkpoint::kShardChunkBytes);
  given_to_ = piece.read_to;
  return piece.bytes;
}

absl::StatusOr<std::span<const std::byte>> StatePieces::NextStaged() {
  constexpr double kPollSeconds = 0.05;
  if (!staged_) Stage();
  while (!staged_->copied->SettledWithin(kPollSeconds)) {
    if (stopping_) return absl::CancelledError("the view is being left");
  }
  ZF_RETURN_IF_ERROR(staged_->copied->Wait());
  state_.gate().OpenTo(staged_->read_to);
  const std::span<const std::byte> bytes = staged_->bytes;
  Stage();
  return bytes;
}

void StatePieces::Stage() {
  const size_t buffer = staging_.size() / 2;
  const Piece piece = Advance(static_cast<int64_t>(buffer));
  const std::span<std::byte> into = staging_.subspan(free_ * buffer, piece.bytes.size());
  free_ = 1 - free_;
  device_.Copy(*copies_, into.data(), piece.bytes.data(), static_cast<int64_t>(into.size()));
  staged_ = {.bytes = into, .read_to = piece.read_to, .copied = copies_->Record()};
}

StatePieces::Piece StatePieces::Advance(int64_t most_bytes) {
  if (ranges_.empty() || vector_ == state_.vectors().size()) return {.read_to = advanced_to_};
  const device::Tensor& vector = state_.vectors()[vector_];
  const coordinator::PlacedRange& range = ranges_[range_];
  const int64_t element_bytes = device::DTypeBytes(vector.dtype);
  const int64_t count = std::min(range.elements() - at_, most_bytes / element_bytes);
  const auto* const from = static_cast<const std::byte*>(vector.Offset(range.offset + at_).data);
  at_ += count;
  if (vector_ + 1 == state_.vectors().size()) advanced_to_ = range.offset + at_;
  if (at_ == range.elements()) {
    at_ = 0;
    range_ = (range_ + 1) % ranges_.size();
    if (range_ == 0) ++vector_;
  }
  return {.bytes = {from, static_cast<size_t>(count * element_bytes)}, .read_to = advanced_to_};
}

double StatePieces::End() {
  constexpr double kDrainLimitSeconds = 10;
  if (staged_) staged_->copied->SettledWithin(kDrainLimitSeconds);
  return state_.gate().Open();
}

}  // namespace zerofleet::trainer
