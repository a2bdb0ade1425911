// Which settings go together: each rule once, as a row of a table.
//
// The check of a configuration, the planner's search and the advice for a plan that exceeds memory read the table. A
// rule is added by adding a row. The values that a single key may have are in the key's own row
// (proto/zerofleet/v1/config.proto).
#ifndef ZEROFLEET_WORKER_TRAINER_RULES_H_
#define ZEROFLEET_WORKER_TRAINER_RULES_H_

#include <limits>
#include <set>
#include <span>
#include <string>

#include "worker/trainer/rule.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::trainer {

// The value of offload.fraction: auto, until a plan has chosen a number (cli/planner/fraction.h). No number in a text
// is infinite.
inline constexpr double kFractionByPlan = std::numeric_limits<double>::infinity();

// The rules in the order in which they are checked: a rule may assume that those before it hold, and that each key has
// a value that its row allows.
std::span<const Rule> Rules();

// The first rule that a complete configuration violates; null if there is none. Rules with a key in `open` are not
// checked: the key's value is still to be chosen.
const Rule* FirstViolated(const v1::Config& config, const std::set<std::string>& open = {});

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_RULES_H_
