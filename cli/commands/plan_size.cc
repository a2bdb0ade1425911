// From a file, a preset or a number to a count of parameters; see plan_size.h.
#include "cli/commands/plan_size.h"

#include <charconv>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/model/spec.h"

namespace zerofleet::cli {
namespace {

absl::StatusOr<PlanSize> SizeOf(const v1::Config& config, const std::string& name) {
  ZF_ASSIGN_OR_RETURN(const model::ModelSpec spec, model::ModelSpec::Create(config.model()));
  ZF_ASSIGN_OR_RETURN(const optim::OptimizerRow* const optimizer, optim::FindOptimizer(config.optimizer().name()));
  return PlanSize{name, static_cast<double>(spec.parameters()), config.precision(), optimizer, config};
}

double Multiple(char suffix) {
  switch (suffix) {
    case 'K':
    case 'k': return 1e3;
    case 'M':
    case 'm': return 1e6;
    case 'B':
    case 'b':
    case 'G':
    case 'g': return 1e9;
    case 'T':
    case 't': return 1e12;
    default: return 0;
  }
}

}  // namespace

absl::StatusOr<double> ParseParameterCount(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const double multiple = stop == end ? 1 : stop + 1 == end ? Multiple(*stop) : 0;
  value *= multiple;
  if (error != std::errc() || !(value >= 1 && value <= 1e15)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--parameters: must be 1 to 1000T, such as 124439808, 7.5B or 1T, got \"", absl::CHexEscape(text), "\""));
  }
  return value;
}

absl::StatusOr<PlanSize> ChoosePlanSize(const std::string& config, const std::string& preset,
                                        const std::string& parameters, const std::vector<ConfigOverride>& overrides,
                                        const std::string& precision) {
  if (!config.empty() + !preset.empty() + !parameters.empty() != 1) {
    return absl::InvalidArgumentError("plan needs exactly one of a configuration file, --preset and --parameters");
  }
  if (config.empty() && !overrides.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(overrides[0].flag, ": needs a configuration file to change"));
  }
  if (!precision.empty() && precision != "bf16" && precision != "fp16" && precision != "fp32") {
    return absl::InvalidArgumentError(
        absl::StrCat("--precision: must be bf16, fp16 or fp32, got \"", absl::CHexEscape(precision), "\""));
  }
  if (!parameters.empty()) {
    ZF_ASSIGN_OR_RETURN(const double count, ParseParameterCount(parameters));
    return PlanSize{parameters, count, precision.empty() ? "bf16" : precision, &optim::Optimizers().front(),
                    std::nullopt};
  }
  if (!config.empty()) {
    std::vector<ConfigOverride> all = overrides;
    if (!precision.empty()) all.push_back({"--precision", absl::StrCat("precision=", precision)});
    ZF_ASSIGN_OR_RETURN(const v1::Config loaded, LoadConfig(config, all));
    return SizeOf(loaded, config);
  }
  ZF_ASSIGN_OR_RETURN(v1::Config named, DefaultConfig(preset));
  if (!precision.empty()) named.set_precision(precision);
  return SizeOf(named, preset);
}

}  // namespace zerofleet::cli
