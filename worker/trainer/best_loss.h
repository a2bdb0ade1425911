// The lowest validation loss of a run: its step, which checkpoint has it, and for how many evaluations it has stood.
// All ranks evaluate alike, so each keeps this by itself; checkpoints and snapshots carry it on.
#ifndef ZEROFLEET_WORKER_TRAINER_BEST_LOSS_H_
#define ZEROFLEET_WORKER_TRAINER_BEST_LOSS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "zerofleet/v1/checkpoint.pb.h"
#include "zerofleet/v1/config.pb.h"
#include "zerofleet/v1/events.pb.h"

namespace zerofleet::trainer {

class BestLoss {
 public:
  // `state` is what a checkpoint stored; empty for a new run.
  explicit BestLoss(const v1::EvaluateConfig& config, v1::BestLoss state = {})
      : config_(config), state_(std::move(state)) {}

  // Takes the loss of the set that evaluate.best names, or of all sets. A loss that is not finite never counts as
  // lower.
  void Evaluated(const v1::EvaluateEvent& event);
  // Called when a checkpoint of this step begins: notes it if it has the lowest loss of the checkpoints whose step was
  // evaluated.
  void Saved(int64_t step);
  // Called when that checkpoint could not be stored: the one before it is the best again.
  void SaveFailed(int64_t step);

  // Whether evaluate.patience evaluations in a row have found no lower loss.
  bool stops() const { return config_.patience() > 0 && state_.stale_evaluations() >= config_.patience(); }
  // Why the run stops, as a line for people.
  std::string Reason() const;
  const v1::BestLoss& state() const { return state_; }

 private:
  const v1::EvaluateConfig config_;
  v1::BestLoss state_;
  int64_t evaluated_step_ = -1;
  double evaluated_loss_ = 0;
  int64_t noted_step_ = -1;  // the last step that Saved has noted, and what was noted before
  int64_t saved_step_before_ = 0;
  double saved_loss_before_ = 0;
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_BEST_LOSS_H_
