// Rules about PyTorch modules (rules.h).
#ifndef ZEROFLEET_WORKER_TRAINER_RULES_OF_MODULES_H_
#define ZEROFLEET_WORKER_TRAINER_RULES_OF_MODULES_H_

#include <vector>

#include "worker/trainer/rule.h"

namespace zerofleet::trainer {

// They come first: later rules are about families, or assume that a model has layers.
const std::vector<Rule>& ModuleRules();

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_RULES_OF_MODULES_H_
