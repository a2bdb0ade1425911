// A model of about a given number of parameters, for plans that name no model.
#ifndef ZEROFLEET_CLI_PLANNER_SHAPE_H_
#define ZEROFLEET_CLI_PLANNER_SHAPE_H_

#include "absl/status/statusor.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

inline constexpr double kSmallestShape = 1e6, kLargestShape = 4e12;  // parameters

// A GPT-2 with this context and vocabulary: its hidden size is about 85 times its number of layers, in the range of
// large published models (GPT-3: 128, GPT-2 1.5B: 33), its heads have size 64, and its number of layers is the one that
// comes closest. The hidden size is a multiple of 64 below a billion parameters and of 1024 above, so that tensor
// groups can share the heads. InvalidArgument outside the two limits above, and where the embeddings leave no room for
// a block.
absl::StatusOr<v1::ModelConfig> ShapeOf(double parameters, int64_t context, int64_t vocab);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_SHAPE_H_
