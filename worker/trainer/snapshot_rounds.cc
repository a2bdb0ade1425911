// Counting steps, and one thread that sends; see snapshot_rounds.h.
#include "worker/trainer/snapshot_rounds.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace zerofleet::trainer {

void SnapshotRounds::BeginView(const v1::Config& config, uint64_t generation, int64_t step, std::string holder) {
  EndView();
  every_ = config.checkpoint().snapshot_every_steps();
  due_ = step + 1;
  limit_seconds_ = config.restart().form_timeout_seconds();
  generation_ = generation;
  holder_ = peers_ == nullptr ? "" : std::move(holder);
  failure_ = absl::OkStatus();
  noted_ = false;
}

void SnapshotRounds::EndView() {
  every_ = 0;
  if (!sender_.joinable()) return;
  if (peers_ != nullptr) peers_->EndViewsBefore(generation_ + 1);
  sender_.join();
}

void SnapshotRounds::Taken(const v1::SnapshotShard& shard) {
  const int64_t step = shard.snapshot().step();
  due_ = (step / every_ + 1) * every_;
  if (sender_.joinable()) sender_.join();  // it has nothing left to send
  NoteFailure();
  sending_ = !holder_.empty();
  sender_ = std::thread([this, shard] { SealAndSend(shard); });
}

void SnapshotRounds::SealAndSend(const v1::SnapshotShard& shard) {
  store_.Seal(shard);
  if (holder_.empty()) return;
  OutgoingSnapshot snapshot(store_, shard);
  failure_.Update(peers_->Put(holder_, generation_, limit_seconds_, snapshot));
  sending_ = false;
}

// Called later than the failure, which may be the first sign of the view's end.
void SnapshotRounds::NoteFailure() {
  if (failure_.ok() || std::exchange(noted_, true)) return;
  note_(absl::StrCat("a snapshot could not be copied to ", holder_, ": ", failure_.message(),
                     "; without its copies the loss of this rank goes back to a checkpoint"));
}

}  // namespace zerofleet::trainer
