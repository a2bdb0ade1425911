// Saves, their outcomes, and leaving after one; see worker_life.h.
#include "worker/trainer/worker_life.h"

#include <utility>

#include "base/kill_point.h"
#include "base/status.h"
#include "worker/checkpoint/catalog.h"

namespace zerofleet::trainer {

bool WorkerLife::SavesAfter(int64_t step) const {
  int64_t every = config_.checkpoint().every_steps();
  return step == config_.steps() || (every > 0 && step % every == 0);
}

// The end always saves. If no step was left to do, the resumed state is saved to this run's directory, unless it is
// already committed there; every rank sees the same, since a commit needs them all.
absl::Status WorkerLife::SaveWhatWasResumed() {
  if (saved_.step == result_.step || checkpoint::IsCommitted(config_.checkpoint().dir(), result_.step).value_or(false))
    return absl::OkStatus();
  return Save({result_.step, 0});
}

// One save at a time: storage that cannot keep up delays training, and commits do not pile up.
absl::Status WorkerLife::Save(const SaveTry& save) {
  const double start = clock_.MonotonicSeconds();
  ZF_RETURN_IF_ERROR(AwaitOutcome());
  const double waited = clock_.MonotonicSeconds() - start;
  // Only here, where every rank knows it: what snapshots hold in between must be the same on all.
  if (committed_step_ < saved_.step) run_->NoteFailedSave(saved_.step);
  saved_ = save;
  const auto written = [this, save, generation = run_->mesh().generation()](v1::ShardWritten shard) {
    v1::WorkerMessage message;
    message.set_generation(generation);  // the generation of the save's view, whatever message came later
    shard.set_retry(save.retry);
    *message.mutable_shard_written() = std::move(shard);
    // A lost session ends the run by itself.
    session_.Send(std::move(message)).IgnoreError();
  };
  return run_->Save(save.step, written, waited);
}

// A failed save is settled, too: the coordinator has said why, and the next save tries again.
void WorkerLife::HandleOutcome(const v1::CheckpointOutcome& outcome) {
  ZF_KILL_POINT("worker/outcome");
  settled_ = std::max(settled_, SaveTry{outcome.step(), outcome.retry()});
  if (outcome.committed()) committed_step_ = std::max(committed_step_, outcome.step());
}

absl::Status WorkerLife::AwaitOutcome() {
  while (settled_ < saved_) {
    ZF_ASSIGN_OR_RETURN(v1::CoordinatorMessage message, Await(v1::CoordinatorMessage::kCheckpoint));
    HandleOutcome(message.checkpoint());
  }
  return absl::OkStatus();
}

// No later save makes up for this one, so it is tried again. Every rank hears the same outcomes, so all try the same;
// the coordinator ends the run when it has failed too often.
absl::Status WorkerLife::CommitTheLastSave() {
  ZF_RETURN_IF_ERROR(AwaitOutcome());
  double pause = options_.save_pause_seconds;
  while (committed_step_ < saved_.step) {
    ZF_RETURN_IF_ERROR(Pause(std::exchange(pause, 2 * pause)));
    ZF_RETURN_IF_ERROR(Save({saved_.step, saved_.retry + 1}));
    ZF_RETURN_IF_ERROR(AwaitOutcome());
  }
  return absl::OkStatus();
}

// The end of the view or of the run ends the pause early.
absl::Status WorkerLife::Pause(double seconds) {
  for (double left = seconds; left > 0; left -= kPollSeconds) {
    absl::StatusOr<v1::CoordinatorMessage> message = session_.Receive(std::min(left, kPollSeconds));
    if (absl::IsDeadlineExceeded(message.status())) continue;
    ZF_RETURN_IF_ERROR(message);
    if (message->has_regroup()) return Regrouped(*message);
    if (message->has_checkpoint()) HandleOutcome(message->checkpoint());
  }
  return absl::OkStatus();
}

// If the save has failed, nothing is gained by waiting for another.
absl::Status WorkerLife::LeaveIfSaved() {
  if (!parting_save_ || settled_ < *parting_save_) return absl::OkStatus();
  left_ = true;
  const bool committed = committed_step_ >= parting_save_->step;
  return absl::CancelledError(absl::StrCat("left the fleet on a signal at step ", result_.step,
                                           "; the checkpoint of step ", parting_save_->step,
                                           committed ? " is committed" : " could not be stored"));
}

}  // namespace zerofleet::trainer
