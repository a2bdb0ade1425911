// Which model `zerofleet plan` is asked about.
#ifndef ZEROFLEET_CLI_PLANNER_PLAN_SIZE_H_
#define ZEROFLEET_CLI_PLANNER_PLAN_SIZE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/config/config.h"
#include "worker/optim/optimizer.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

struct PlanSize {
  std::string name;
  double parameters = 0;
  std::string precision;  // bf16, fp16 or fp32
  const optim::OptimizerRow* optimizer = nullptr;
  std::optional<v1::Config> config;  // only for a file or a preset: what one rank's memory is planned from
};

// Whether some of the model's weights are not trained (model.freeze, model.lora): figures by the paper's formulas, and
// of models of other shapes, are those of training all.
bool FreezesWeights(const v1::ModelConfig& model);

// A sentence that says what the paper's formulas count for this model.
std::string StatesConvention(const PlanSize& size);

// Parses "124439808", "7.5B", "1T" (suffixes K, M, B, T). InvalidArgument unless the count is 1 to 1e15.
absl::StatusOr<double> ParseParameterCount(const std::string& text);

// The model of the configuration file at `config` with `overrides` applied, of the preset with its defaults, or of the
// given number of parameters: exactly one of the three is not empty, and only a file takes overrides. `precision`
// replaces the configuration's unless it is empty.
absl::StatusOr<PlanSize> ChoosePlanSize(const std::string& config, const std::string& preset,
                                        const std::string& parameters,
                                        const std::vector<ConfigOverride>& overrides = {},
                                        const std::string& precision = "");

// The chosen model as a whole configuration of `workers` ranks. For a preset or a number of parameters, a step is one
// micro-batch of one sequence unless `overrides` say otherwise, and any key may be overridden; a number of parameters
// gets the shape that ShapeOf gives it. A file keeps its own batch, and its own workers where `workers` is 0.
absl::StatusOr<v1::Config> ChoosePlanConfig(const std::string& config, const std::string& preset,
                                            const std::string& parameters, const std::vector<ConfigOverride>& overrides,
                                            const std::string& precision, int64_t workers);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_PLAN_SIZE_H_
