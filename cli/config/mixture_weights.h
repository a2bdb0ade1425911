// The weights of a mixture: from decimals, as people write them, to the integers that a cycle of samples is made of.
#ifndef ZEROFLEET_CLI_CONFIG_MIXTURE_WEIGHTS_H_
#define ZEROFLEET_CLI_CONFIG_MIXTURE_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace zerofleet::cli {

// The smallest integers in the proportion of `weights`, which are decimal numbers above 0: {"0.7", "0.3"} gives {7, 3}.
// InvalidArgument for other text, for more than six decimals, and for a weight above 1e9.
absl::StatusOr<std::vector<int64_t>> IntegerWeights(const std::vector<std::string>& weights);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_CONFIG_MIXTURE_WEIGHTS_H_
