// Which settings go together: each rule once, as a row of a table.
//
// The check of a configuration, the planner's search and the advice where memory does not suffice read it. A rule is
// added by adding a row. What a single key may be is said by its own row (proto/zerofleet/v1/config.proto).
#ifndef ZEROFLEET_WORKER_TRAINER_RULES_H_
#define ZEROFLEET_WORKER_TRAINER_RULES_H_

#include <limits>
#include <set>
#include <span>
#include <string>

#include "worker/trainer/rule.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::trainer {

// offload.fraction: auto, until a plan has made it a number (cli/planner/fraction.h). No number in a text is infinite.
inline constexpr double kFractionByPlan = std::numeric_limits<double>::infinity();

// In the order in which they are looked at: a rule may take for granted that those before it hold, and that each key
// has a value that its row allows.
std::span<const Rule> Rules();

// The first rule that a complete configuration violates; null if there is none. Rules over a key of `open` are not
// asked: its value is still to be chosen.
const Rule* FirstViolated(const v1::Config& config, const std::set<std::string>& open = {});

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_RULES_H_
