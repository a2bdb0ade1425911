// Names to steps and back; see step_name.h.
#include "worker/checkpoint/step_name.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

namespace zerofleet::checkpoint {
namespace {

constexpr char kStepPrefix[] = "step-";

}  // namespace

std::string StepName(int64_t step) { return absl::StrFormat("%s%08d", kStepPrefix, step); }

int64_t StepOfName(const std::string& name) {
  int64_t step = -1;
  if (!absl::StartsWith(name, kStepPrefix)) return -1;
  if (!absl::SimpleAtoi(name.substr(sizeof(kStepPrefix) - 1), &step) || step < 0) return -1;
  return StepName(step) == name ? step : -1;
}

std::string NameOfDirectory(const std::string& path) {
  std::filesystem::path full(path);
  if (!full.has_filename()) full = full.parent_path();  // a trailing slash
  return full.filename().string();
}

int64_t StepOfDirectory(const std::string& step_dir) { return StepOfName(NameOfDirectory(step_dir)); }

}  // namespace zerofleet::checkpoint
