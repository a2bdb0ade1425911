// Which loss is a spike: one above a multiple of the median of the steps before it.
//
// The rule depends only on the losses, so all ranks of a view judge alike: they begin with the same losses, which the
// coordinator sends (Start.losses), and add those of the same steps.
#ifndef ZEROFLEET_WORKER_TRAINER_SPIKE_RULE_H_
#define ZEROFLEET_WORKER_TRAINER_SPIKE_RULE_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "zerofleet/v1/config.pb.h"

namespace zerofleet::trainer {

class SpikeRule {
 public:
  // `losses` are those of the steps before the first that is judged, oldest first.
  SpikeRule(const v1::DivergenceConfig& config, const std::vector<double>& losses);

  // What is wrong with the next step's loss; empty if nothing is. A wrong loss is not part of any later median; nor is
  // that of a skipped step, which is not to be judged.
  std::string Judge(double loss);

 private:
  void Add(double loss);

  const v1::DivergenceConfig config_;
  std::deque<double> window_;  // oldest first
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_SPIKE_RULE_H_
