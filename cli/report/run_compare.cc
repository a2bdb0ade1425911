// See run_compare.h.
#include "cli/report/run_compare.h"

#include <bit>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/json.h"

namespace zerofleet::cli {
namespace {

using Json = nlohmann::json;

void Flatten(const std::string& prefix, const Json& value, std::map<std::string, std::string>* keys) {
  if (!value.is_object()) {
    (*keys)[prefix] = DumpJson(value);
    return;
  }
  for (const auto& [key, member] : value.items()) {
    Flatten(prefix.empty() ? key : absl::StrCat(prefix, ".", key), member, keys);
  }
}

bool SameBits(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

}  // namespace

std::vector<DifferingKey> DifferingKeys(const std::vector<RunFile>& runs) {
  std::vector<std::map<std::string, std::string>> configs(runs.size());
  std::set<std::string> names;
  for (size_t i = 0; i < runs.size(); ++i) {
    const Json& start = runs[i].start;
    if (start.is_object() && start.contains("config")) Flatten("", start["config"], &configs[i]);
    for (const auto& [key, value] : configs[i]) names.insert(key);
  }
  std::vector<DifferingKey> differing;
  for (const std::string& name : names) {
    DifferingKey key{name, {}};
    for (const std::map<std::string, std::string>& config : configs) {
      const auto found = config.find(name);
      key.values.push_back(found == config.end() ? "" : found->second);
    }
    if (std::set<std::string>(key.values.begin(), key.values.end()).size() > 1) differing.push_back(std::move(key));
  }
  return differing;
}

std::optional<DifferingStep> FirstDifferingStep(const RunFile& first, const RunFile& other) {
  for (const auto& [number, step] : first.steps) {
    const auto found = other.steps.find(number);
    if (found == other.steps.end()) continue;
    const ReportedStep& theirs = found->second;
    if (!SameBits(step.loss, theirs.loss)) return DifferingStep{number, "loss", step.loss, theirs.loss};
    if (!SameBits(step.grad_norm, theirs.grad_norm)) {
      return DifferingStep{number, "grad_norm", step.grad_norm, theirs.grad_norm};
    }
    if (!SameBits(step.learning_rate, theirs.learning_rate)) {
      return DifferingStep{number, "learning_rate", step.learning_rate, theirs.learning_rate};
    }
  }
  return std::nullopt;
}

int64_t CommonSteps(const RunFile& first, const RunFile& other) {
  int64_t common = 0;
  for (const auto& [number, step] : first.steps) common += other.steps.contains(number) ? 1 : 0;
  return common;
}

std::string BitsText(const RunFile& first, const RunFile& other) {
  const int64_t common = CommonSteps(first, other);
  if (common == 0) return absl::StrCat("has no step that ", first.name, " has");
  const std::optional<DifferingStep> differing = FirstDifferingStep(first, other);
  if (!differing) return absl::StrCat("same bits as ", first.name, " in all ", common, " steps that both have");
  return absl::StrFormat("differs from %s from step %d on: %s %.17g, there %.17g", first.name, differing->step,
                         differing->figure, differing->other, differing->first);
}

}  // namespace zerofleet::cli
