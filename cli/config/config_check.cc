// Rows first, then what depends on several keys; see config_check.h.
#include "cli/config/config_check.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/units.h"
#include "cli/config/key_words.h"
#include "cli/config/keys.h"
#include "cli/config/nearest.h"
#include "coordinator/config_digest.h"
#include "coordinator/placement.h"
#include "worker/device/device.h"
#include "worker/model/checkpointing.h"
#include "worker/optim/optimizer.h"
#include "worker/trainer/rules.h"

namespace zerofleet::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::string InQuotes(const std::string& value) { return absl::StrCat("\"", absl::CHexEscape(value), "\""); }

bool BuiltWithCuda() {
  const std::vector<std::string> kinds = device::DeviceKindsBuilt();
  return std::find(kinds.begin(), kinds.end(), "cuda") != kinds.end();
}

template <typename Words>
bool Contains(const Words& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

absl::Status CheckInteger(const Key& key, int64_t value, const ConfigDraft& draft) {
  const v1::KeyRow& row = *key.row;
  const auto smallest = static_cast<int64_t>(row.smallest()), largest = static_cast<int64_t>(row.largest());
  if (row.or_zero() && value == 0) return absl::OkStatus();
  const bool fits = row.multiple_of() == 0 || value % row.multiple_of() == 0;
  if (fits && value >= smallest && value <= largest) return absl::OkStatus();
  std::string wanted = absl::StrCat(smallest, " to ", largest);
  if (row.multiple_of() > 0) absl::StrAppend(&wanted, ", a multiple of ", row.multiple_of());
  return draft.Error(key.name, absl::StrCat("must be ", row.or_zero() ? "0, or " : "", wanted, ", got ", value));
}

absl::Status CheckDouble(const Key& key, double value, const ConfigDraft& draft) {
  const v1::KeyRow& row = *key.row;
  if (row.or_zero() && value == 0) return absl::OkStatus();
  if (row.kind() == v1::KeyRow::FRACTION && value == trainer::kFractionByPlan) return absl::OkStatus();
  const bool above = row.has_above() ? value > row.above() : value >= row.smallest();
  if (above && value <= row.largest()) return absl::OkStatus();
  const std::string largest = NumberText(row.largest());
  std::string wanted = row.has_above() ? absl::StrCat("> ", NumberText(row.above()), " and <= ", largest)
                                       : absl::StrCat(NumberText(row.smallest()), " to ", largest);
  if (row.kind() == v1::KeyRow::FRACTION) {
    wanted = absl::StrCat("a number from ", NumberText(row.smallest()), " to ", largest, ", or auto");
  }
  if (!row.unit().empty()) absl::StrAppend(&wanted, " ", row.unit());
  const std::string got = row.kind() == v1::KeyRow::FRACTION ? absl::StrFormat("%.15g", value) : absl::StrCat(value);
  return draft.Error(key.name, absl::StrCat("must be ", row.or_zero() ? "0, or " : "", wanted, ", got ", got));
}

// Checks that `value` is one of `choices`, and one that this build supports.
absl::Status CheckChoice(const Key& key, const std::string& value, std::vector<std::string> choices,
                         const ConfigDraft& draft) {
  const bool lacks_cuda = !BuiltWithCuda();
  if (lacks_cuda) {
    std::erase_if(choices, [&](const std::string& choice) { return Contains(key.row->needs_cuda(), choice); });
  }
  if (Contains(choices, value)) return absl::OkStatus();
  if (Contains(key.row->unsupported(), value)) {
    return draft.Error(key.name, absl::StrCat(value, " is not supported; use ", Alternatives(choices)));
  }
  if (lacks_cuda && Contains(key.row->needs_cuda(), value)) {
    return draft.Error(key.name,
                       absl::StrCat(value, " is not available: this build has no CUDA; use ", Alternatives(choices)));
  }
  const std::string_view meant = ValueMeant(value);
  // A word for an unsupported feature is not a misspelling of another.
  const std::string nearest = Contains(choices, meant) ? std::string(meant)
                              : meant.empty()          ? Nearest(value, choices)
                                                       : "";
  return draft.Error(key.name, absl::StrCat("must be ", Alternatives(choices), ", got ", InQuotes(value),
                                            nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
}

absl::Status CheckCheckpointing(const Key& key, const std::string& value, const ConfigDraft& draft) {
  if (!absl::StartsWith(value, "{every")) return CheckChoice(key, value, ChoicesOf(key), draft);
  if (model::ParseCheckpointing(value).ok()) return absl::OkStatus();
  return draft.Error(key.name, absl::StrCat("must be {every: n} with n of 1 to ", NumberText(key.row->largest()),
                                            ", got ", InQuotes(value)));
}

absl::Status CheckString(const Key& key, const std::string& value, const ConfigDraft& draft) {
  switch (key.row->kind()) {
    case v1::KeyRow::CHECKPOINTING: return CheckCheckpointing(key, value, draft);
    case v1::KeyRow::PRESET: return absl::OkStatus();  // the defaults have looked it up
    case v1::KeyRow::TEAM: {
      const absl::Status team = coordinator::ConfiguredTeam(draft.config.parallel()).status();
      return team.ok() ? team : draft.Error(key.name, std::string(team.message()));
    }
    case v1::KeyRow::SIZE:
      if (value.empty() || ParseBytes(value).has_value()) return absl::OkStatus();
      return draft.Error(key.name, absl::StrCat("must be a size such as 4GiB or 512MiB, got ", InQuotes(value)));
    default: break;
  }
  const std::vector<std::string> choices = ChoicesOf(key);
  return choices.empty() ? absl::OkStatus() : CheckChoice(key, value, choices, draft);
}

// Checks the value of one key against its row.
absl::Status CheckKey(const Key& key, const ConfigDraft& draft) {
  const Message& section = key.Section(draft.config);
  const Reflection& reflection = *section.GetReflection();
  const FieldDescriptor* const field = &key.field();
  if (field->is_repeated() || !key.HasSection(draft.config)) return absl::OkStatus();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING: return CheckString(key, reflection.GetString(section, field), draft);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return HasRange(*key.row) ? CheckDouble(key, reflection.GetDouble(section, field), draft) : absl::OkStatus();
    case FieldDescriptor::CPPTYPE_INT32: return CheckInteger(key, reflection.GetInt32(section, field), draft);
    case FieldDescriptor::CPPTYPE_INT64: return CheckInteger(key, reflection.GetInt64(section, field), draft);
    default: return absl::OkStatus();
  }
}

// Checks that the keys of the chosen optimizer are in range, and that no key of another optimizer is given, which would
// have no effect. A complete configuration, as `train` writes it for its processes, contains the keys of all
// optimizers: those that do not apply are 0.
absl::Status CheckOptimizer(const ConfigDraft& draft) {
  const v1::OptimizerConfig& config = draft.config.optimizer();
  ZF_ASSIGN_OR_RETURN(const optim::OptimizerRow* const row, optim::FindOptimizer(config.name()));
  for (const optim::OptimizerRow& other : optim::Optimizers()) {
    for (const optim::OptimizerKey& key : other.keys) {
      const std::string name = absl::StrCat("optimizer.", key.name);
      if (!draft.Given(name) || row->HasKey(key.name) || (config.*key.get)() == 0) continue;
      return draft.Error(
          name, absl::StrCat("is a key of ", other.name, ", and optimizer.name is ", config.name(), "; leave it out"));
    }
  }
  for (const optim::OptimizerKey& key : row->keys) {
    const double value = (config.*key.get)();
    if (!key.fits(value)) {
      return draft.Error(absl::StrCat("optimizer.", key.name), absl::StrCat(key.wanted, ", got ", value));
    }
  }
  return absl::OkStatus();
}

// The processes of a run receive the configuration as this JSON, in messages of limited size.
absl::Status CheckSize(const ConfigDraft& draft) {
  const auto bytes = static_cast<int64_t>(TextOf(draft.config).size());
  if (bytes <= coordinator::kMostConfigBytes) return absl::OkStatus();
  const v1::DataConfig& data = draft.config.data();
  return draft.Error(
      data.train_size() < data.validation_size() ? "data.validation" : "data.train",
      absl::StrCat("the complete configuration has ", bytes, " bytes as JSON; at most ", coordinator::kMostConfigBytes,
                   " are allowed: name a directory instead of its files"));
}

// Whether `key`, an integer, was given another value than its default. A complete configuration, as `train` writes it
// for its processes, has the defaults.
bool IsChanged(const char* key, int64_t value, const ConfigDraft& draft) {
  return draft.Given(key) && absl::StrCat(value) != FindKey(key)->row->value();
}

// Refuses settings of rollbacks and of spike detection that would have no effect.
absl::Status CheckDivergence(const ConfigDraft& draft) {
  const v1::Config& config = draft.config;
  constexpr char kRollbacks[] = "divergence.max_rollbacks", kWindow[] = "divergence.window_steps";
  if (IsChanged(kRollbacks, config.divergence().max_rollbacks(), draft) && config.on_divergence() != "rollback") {
    return draft.Error(
        kRollbacks, absl::StrCat("needs on_divergence rollback, which is ", config.on_divergence(), "; leave it out"));
  }
  if (IsChanged(kWindow, config.divergence().window_steps(), draft) && config.divergence().spike_factor() == 0) {
    return draft.Error(kWindow, "needs divergence.spike_factor, which is 0; leave it out");
  }
  return absl::OkStatus();
}

// The key to name in a rule's message: the rule's first key or, where that is written within another key, as the names
// of sets are, the enclosing key.
std::string NamedKey(const trainer::Rule& rule, const ConfigDraft& draft) {
  const std::string key = rule.keys.front();
  for (const std::string within : rule.keys) {
    if (!draft.Given(key) && draft.Given(within) && absl::StartsWith(key, within + "_")) return within;
  }
  return key;
}

}  // namespace

absl::Status CheckConfig(const ConfigDraft& draft) {
  for (const Key& key : Keys()) {
    // A PyTorch module has none of a family's sizes; the rules refuse those that are given.
    const bool of_family =
        absl::StartsWith(key.name, "model.") && key.name != "model.context" && key.name != "model.family";
    if (of_family && !draft.config.model().torch().empty()) continue;
    ZF_RETURN_IF_ERROR(CheckKey(key, draft));
  }
  ZF_RETURN_IF_ERROR(CheckOptimizer(draft));
  if (const trainer::Rule* const rule = trainer::FirstViolated(draft.config, draft.open)) {
    return draft.Error(NamedKey(*rule, draft), rule->message(draft.config));
  }
  ZF_RETURN_IF_ERROR(CheckDivergence(draft));
  return CheckSize(draft);
}

}  // namespace zerofleet::cli
