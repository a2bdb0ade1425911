// Reading, defaults, check, in that order; see config.h.
#include "cli/config/config.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "cli/config/config_check.h"
#include "cli/config/config_defaults.h"
#include "cli/config/config_text.h"
#include "cli/config/initial_model.h"
#include "cli/config/keys.h"
#include "cli/config/tokenizer_facts.h"
#include "coordinator/batch_schedule.h"

namespace zerofleet::cli {
namespace {

constexpr int64_t kLargestFile = 1 << 20;  // bytes
constexpr char kEpochsKey[] = "epochs", kStepsKey[] = "steps";

absl::StatusOr<v1::Config> Complete(ConfigDraft draft) {
  ZF_RETURN_IF_ERROR(FillDefaults(draft));
  ZF_RETURN_IF_ERROR(CheckStoredModel(draft));
  ZF_RETURN_IF_ERROR(CheckConfig(draft));
  ZF_RETURN_IF_ERROR(CheckVocabulary(draft));
  return std::move(draft.config);
}

// The least whole number that is not below `value`, which may be off by the rounding of what it was computed from:
// 1.12 x 100 / 16 is 7.
double LeastWhole(double value) {
  constexpr double kRounding = 4 * std::numeric_limits<double>::epsilon();
  const double nearest = std::round(value);
  return std::abs(value - nearest) <= kRounding * value ? nearest : std::ceil(value);
}

// Replaces the draft's epochs by steps. What a sample is depends on other keys, so these are completed and checked
// first, for a run that is longer than any other.
absl::Status MakeStepsOfEpochs(const SampleCounter& count, ConfigDraft& draft) {
  for (const char* other : {kStepsKey, "tokens"}) {
    if (draft.Given(other))
      return draft.Error(kEpochsKey, absl::StrCat(other, " says how long the run is, too; leave one of them out"));
  }
  if (draft.config.data().train_weights_size() > 0) {
    return draft.Error(kEpochsKey, "of a mixture differ from set to set; give steps or tokens");
  }
  if (!count) return draft.Error(kEpochsKey, "need the data, which are not read here; give steps");
  constexpr int64_t kLongSteps = 1'000'000'000;  // few enough for any batch's tokens to be counted
  ConfigDraft longest = draft;
  longest.config.set_steps(kLongSteps);
  longest.given[kStepsKey] = draft.given[kEpochsKey];
  ZF_ASSIGN_OR_RETURN(const v1::Config complete, Complete(std::move(longest)));
  ZF_ASSIGN_OR_RETURN(const int64_t samples, count(complete));
  const double steps =
      LeastWhole(coordinator::StepsTaking(complete.batch(), complete.epochs() * static_cast<double>(samples)));
  if (steps > FindKey(kStepsKey)->row->largest()) {
    return draft.Error(kEpochsKey,
                       absl::StrCat("makes ", steps, " steps of ", samples, " samples, more than a run has"));
  }
  draft.config.set_steps(static_cast<int64_t>(std::max(steps, 1.0)));
  draft.config.clear_epochs();
  draft.given[kStepsKey] = draft.given[kEpochsKey];
  draft.given.erase(kEpochsKey);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::Config> ParseConfig(const std::string& text, const std::string& name,
                                       const std::vector<ConfigOverride>& overrides, const SampleCounter& count,
                                       const std::vector<std::string>& to_choose) {
  ConfigDraft draft;
  draft.file = name;
  ZF_RETURN_IF_ERROR(ReadConfigText(text, draft));
  for (const ConfigOverride& each : overrides) {
    ZF_RETURN_IF_ERROR(ApplyOverride(each.flag, each.assignment, draft));
  }
  for (const std::string& key : to_choose) {
    if (!draft.Given(key)) draft.open.insert(key);
  }
  ZF_RETURN_IF_ERROR(FindStoredModel(draft));
  ZF_RETURN_IF_ERROR(FindTokenizer(draft));
  if (draft.config.epochs() != 0) ZF_RETURN_IF_ERROR(MakeStepsOfEpochs(count, draft));
  return Complete(std::move(draft));
}

absl::StatusOr<v1::Config> LoadConfig(const std::string& path, const std::vector<ConfigOverride>& overrides,
                                      const SampleCounter& count, const std::vector<std::string>& to_choose) {
  if (IsDirectory(path))
    return absl::InvalidArgumentError(absl::StrCat(path, ": a directory, not a configuration file"));
  absl::StatusOr<std::string> text = ReadSmallFile(path, kLargestFile);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  return ParseConfig(*text, path, overrides, count, to_choose);
}

absl::StatusOr<v1::Config> DefaultConfig(const std::string& preset) {
  ConfigDraft draft;
  draft.file = "--preset";
  draft.config.mutable_model()->set_preset(preset);
  ZF_RETURN_IF_ERROR(FillDefaults(draft));
  return draft.config;
}

}  // namespace zerofleet::cli
