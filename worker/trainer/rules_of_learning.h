// Rules about what is trained and how (rules.h): adapters and frozen tensors; optimizer, schedule and loss; evaluations
// that end a run.
#ifndef ZEROFLEET_WORKER_TRAINER_RULES_OF_LEARNING_H_
#define ZEROFLEET_WORKER_TRAINER_RULES_OF_LEARNING_H_

#include <vector>

#include "worker/trainer/rule.h"

namespace zerofleet::trainer {

const std::vector<Rule>& TuningRules();
const std::vector<Rule>& LearningRules();

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_RULES_OF_LEARNING_H_
