// Which model `zerofleet plan` is asked about.
#ifndef ZEROFLEET_CLI_COMMANDS_PLAN_SIZE_H_
#define ZEROFLEET_CLI_COMMANDS_PLAN_SIZE_H_

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
  std::optional<v1::Config> config;  // of a file or a preset: what one rank's memory is planned from
};

// "124439808", "7.5B", "1T" (suffixes K, M, B, T); InvalidArgument unless it is 1 to 1e15.
absl::StatusOr<double> ParseParameterCount(const std::string& text);

// The model of the configuration file at `config` with `overrides` applied, of the preset at its defaults, or of the
// given size: exactly one is not empty, and only a file takes overrides. `precision` replaces the configuration's
// unless it is empty.
absl::StatusOr<PlanSize> ChoosePlanSize(const std::string& config, const std::string& preset,
                                        const std::string& parameters,
                                        const std::vector<ConfigOverride>& overrides = {},
                                        const std::string& precision = "");

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_PLAN_SIZE_H_
