// The lowest validation loss of a run: when it was, which checkpoint has it, how long ago. All ranks evaluate alike, so
// each keeps this by itself; checkpoints and snapshots carry it on.
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
  // `state` is what a checkpoint has of it; a new run's is empty.
  explicit BestLoss(const v1::EvaluateConfig& config, v1::BestLoss state = {})
      : config_(config), state_(std::move(state)) {}

  // Takes the loss of the set evaluate.best, or of all. A loss that is not finite is no lower one.
  void Evaluated(const v1::EvaluateEvent& event);
  // A checkpoint of this step begins: it has the lowest loss so far of those with an evaluation of their step, or not.
  void Saved(int64_t step);

  // Whether evaluate.patience evaluations in a row have found no lower one.
  bool stops() const { return config_.patience() > 0 && state_.stale_evaluations() >= config_.patience(); }
  // For people: why.
  std::string Reason() const;
  const v1::BestLoss& state() const { return state_; }

 private:
  const v1::EvaluateConfig config_;
  v1::BestLoss state_;
  int64_t evaluated_step_ = -1;
  double evaluated_loss_ = 0;
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_BEST_LOSS_H_
