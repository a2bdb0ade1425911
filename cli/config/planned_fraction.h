// What offload.fraction: auto is until a plan has made it a number (cli/planner/fraction.h).
#ifndef ZEROFLEET_CLI_CONFIG_PLANNED_FRACTION_H_
#define ZEROFLEET_CLI_CONFIG_PLANNED_FRACTION_H_

#include <limits>

namespace zerofleet::cli {

// No number in a text is infinite.
inline constexpr double kFractionByPlan = std::numeric_limits<double>::infinity();

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_CONFIG_PLANNED_FRACTION_H_
