// From a file, a preset or a number to a count of parameters; see plan_size.h.
#include "cli/planner/plan_size.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "cli/planner/model_states.h"
#include "cli/planner/shape.h"
#include "cli/planner/traffic.h"
#include "worker/model/spec.h"

namespace zerofleet::cli {
namespace {

absl::StatusOr<PlanSize> SizeOf(const v1::Config& config, const std::string& name) {
  ZF_ASSIGN_OR_RETURN(const model::ModelSpec spec, model::ModelSpec::Create(config.model()));
  ZF_ASSIGN_OR_RETURN(const optim::OptimizerRow* const optimizer, optim::OptimizerOf(config));
  return PlanSize{name, static_cast<double>(spec.parameters()), config.precision(), optimizer, config};
}

// A plan does not depend on the number of steps, so epochs need no look at the data.
absl::StatusOr<int64_t> ManySamples(const v1::Config&) { return kSamplesToBeCounted; }

constexpr int64_t kMostPlannedMicro = 60'000;  // times the most ranks it is still a valid batch.global_sequences

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

absl::Status CheckSource(const std::string& config, const std::string& preset, const std::string& parameters) {
  if (!config.empty() + !preset.empty() + !parameters.empty() == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "plan needs exactly one of a configuration file, --preset, --parameters and --table");
}

absl::Status CheckPrecision(const std::string& precision) {
  if (precision.empty() || precision == "bf16" || precision == "fp16" || precision == "fp32") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--precision: must be bf16, fp16 or fp32, got \"", absl::CHexEscape(precision), "\""));
}

bool Sets(const std::vector<ConfigOverride>& overrides, const std::string& key) {
  for (const ConfigOverride& each : overrides) {
    if (absl::StartsWith(each.assignment, absl::StrCat(key, "="))) return true;
  }
  return false;
}

// The last batch.micro_sequences in `overrides`; 1 where there is none, or where the configuration's check would refuse
// it.
int64_t MicroSequencesIn(const std::vector<ConfigOverride>& overrides) {
  const std::string key = "batch.micro_sequences=";
  int64_t micro = 1;
  for (const ConfigOverride& each : overrides) {
    if (!absl::StartsWith(each.assignment, key)) continue;
    if (!absl::SimpleAtoi(each.assignment.substr(key.size()), &micro)) micro = 1;
  }
  return std::clamp<int64_t>(micro, 1, kMostPlannedMicro);
}

}  // namespace

bool FreezesWeights(const v1::ModelConfig& model) { return model.freeze_size() > 0 || model.lora().rank() > 0; }

std::string StatesConvention(const PlanSize& size) {
  std::vector<std::string> vectors;
  for (const optim::OptimizerVector& vector : size.optimizer->vectors) {
    vectors.push_back(absl::StrCat(device::DTypeName(vector.dtype), " ", vector.name));
  }
  const bool freezes = size.config && FreezesWeights(size.config->model());
  return absl::StrFormat(
      "%1$s: %2$.0f bytes per parameter, %2$.0f per gradient, %3$d of optimizer states (%4$s: %5$s)%6$s; steps of one "
      "micro-batch; GB = 1e9 bytes",
      size.precision, ElementBytes(size.precision), size.optimizer->StateBytesPerParameter(), size.optimizer->name,
      absl::StrJoin(vectors, ", "), freezes ? ", as if all parameters were trained, which they are not here" : "");
}

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
  ZF_RETURN_IF_ERROR(CheckSource(config, preset, parameters));
  if (config.empty() && !overrides.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(overrides[0].flag, ": needs a configuration file to change, or a cluster, such as --gpus 8"));
  }
  ZF_RETURN_IF_ERROR(CheckPrecision(precision));
  if (!parameters.empty()) {
    ZF_ASSIGN_OR_RETURN(const double count, ParseParameterCount(parameters));
    return PlanSize{parameters, count, precision.empty() ? "bf16" : precision, &optim::Optimizers().front(),
                    std::nullopt};
  }
  if (!config.empty()) {
    std::vector<ConfigOverride> all = overrides;
    if (!precision.empty()) all.push_back({"--precision", absl::StrCat("precision=", precision)});
    ZF_ASSIGN_OR_RETURN(const v1::Config loaded, LoadConfig(config, all, ManySamples));
    return SizeOf(loaded, config);
  }
  ZF_ASSIGN_OR_RETURN(v1::Config named, DefaultConfig(preset));
  if (!precision.empty()) named.set_precision(precision);
  return SizeOf(named, preset);
}

absl::StatusOr<v1::Config> ChoosePlanConfig(const std::string& config, const std::string& preset,
                                            const std::string& parameters, const std::vector<ConfigOverride>& overrides,
                                            const std::string& precision, int64_t workers) {
  ZF_RETURN_IF_ERROR(CheckSource(config, preset, parameters));
  ZF_RETURN_IF_ERROR(CheckPrecision(precision));
  std::vector<ConfigOverride> all;
  const auto set = [&](const std::string& flag, const std::string& key, const auto& value) {
    all.push_back({flag, absl::StrCat(key, "=", value)});
  };
  if (workers > 0) set("--gpus", "parallel.workers", workers);
  if (!precision.empty()) set("--precision", "precision", precision);
  if (!config.empty()) {
    all.insert(all.end(), overrides.begin(), overrides.end());
    return LoadConfig(config, all, ManySamples);
  }
  if (!preset.empty()) {
    set("--preset", "model.preset", preset);
  } else {
    constexpr int64_t kContext = 1024, kVocab = 50257;  // GPT-2's
    ZF_ASSIGN_OR_RETURN(const double count, ParseParameterCount(parameters));
    ZF_ASSIGN_OR_RETURN(const v1::ModelConfig shape, ShapeOf(count, kContext, kVocab));
    set("--parameters", "model.layers", shape.layers());
    set("--parameters", "model.hidden", shape.hidden());
    set("--parameters", "model.heads", shape.heads());
    set("--parameters", "model.context", kContext);
    set("--parameters", "model.vocab", kVocab);
  }
  set("plan", "data.train", "[none]");  // a configuration must name data, but a plan reads none
  // A number of sequences that divides evenly among any number of tensor groups; below, the step becomes one
  // micro-batch.
  const bool own_batch = Sets(overrides, "batch.global_sequences");
  if (!own_batch) {
    const int64_t micro = MicroSequencesIn(overrides);
    set("plan", "batch.global_sequences", workers * micro);
    set("plan", "batch.micro_sequences", micro);
  }
  all.insert(all.end(), overrides.begin(), overrides.end());
  ZF_ASSIGN_OR_RETURN(const v1::Config chosen, ParseConfig("", preset.empty() ? "--parameters" : "--preset", all));
  return own_batch ? chosen : WithMicroBatches(chosen, 1);
}

}  // namespace zerofleet::cli
