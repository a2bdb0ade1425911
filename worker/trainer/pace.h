// How long this rank's own part of a step takes, so that the coordinator sees which rank keeps the others waiting.
#ifndef ZEROFLEET_WORKER_TRAINER_PACE_H_
#define ZEROFLEET_WORKER_TRAINER_PACE_H_

#include <cstddef>
#include <vector>

#include "worker/zero/phases.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::trainer {

class Pace {
 public:
  void Add(const zero::PhaseSeconds& step);
  // The median of each phase that is this rank's own work (not gather and reduce, which wait for others), over the
  // newest kSteps steps at most.
  v1::Pace Median() const;

 private:
  static constexpr size_t kSteps = 32;

  std::vector<zero::PhaseSeconds> steps_;  // a ring, from next_ on
  size_t next_ = 0;
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_PACE_H_
