// A model of about a given number of parameters, for plans that name no model.
#ifndef ZEROFLEET_CLI_PLANNER_SHAPE_H_
#define ZEROFLEET_CLI_PLANNER_SHAPE_H_

#include "absl/status/statusor.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

inline constexpr double kSmallestShape = 1e6, kLargestShape = 4e12;  // parameters

// GPT-2 with this context and vocabulary: about 85 of width per layer, as the large published ones have (GPT-3: 128,
// GPT-2 1.5B: 33), heads of 64, and as many layers as come closest. Widths are multiples of 64 below a billion
// parameters and of 1024 above, so that tensor groups can share the heads. InvalidArgument outside the two limits, and
// where the vocabulary alone has more parameters.
absl::StatusOr<v1::ModelConfig> ShapeOf(double parameters, int64_t context, int64_t vocab);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_SHAPE_H_
