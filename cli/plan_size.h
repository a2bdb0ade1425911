// Which model `zerofleet plan` is asked about.
#ifndef ZEROFLEET_CLI_PLAN_SIZE_H_
#define ZEROFLEET_CLI_PLAN_SIZE_H_

#include <string>

#include "absl/status/statusor.h"

namespace zerofleet {

struct PlanSize {
  std::string name;
  double parameters = 0;
};

// "124439808", "7.5B", "1T" (suffixes K, M, B, T); InvalidArgument unless it is 1 to 1e15.
absl::StatusOr<double> ParseParameterCount(const std::string& text);

// The model of the configuration file at `config`, of the preset, or of the given size: exactly one is not empty.
absl::StatusOr<PlanSize> ChoosePlanSize(const std::string& config, const std::string& preset,
                                        const std::string& parameters);

}  // namespace zerofleet

#endif  // ZEROFLEET_CLI_PLAN_SIZE_H_
