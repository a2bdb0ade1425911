// Reading, defaults, check, in that order; see config.h.
#include "cli/config/config.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "cli/config/config_check.h"
#include "cli/config/config_defaults.h"
#include "cli/config/config_text.h"
#include "cli/config/initial_model.h"
#include "cli/config/tokenizer_facts.h"

namespace zerofleet::cli {
namespace {
constexpr int64_t kLargestFile = 1 << 20;  // bytes
}  // namespace

absl::StatusOr<v1::Config> ParseConfig(const std::string& text, const std::string& name,
                                       const std::vector<ConfigOverride>& overrides) {
  ConfigDraft draft;
  draft.file = name;
  ZF_RETURN_IF_ERROR(ReadConfigText(text, draft));
  for (const ConfigOverride& each : overrides) {
    ZF_RETURN_IF_ERROR(ApplyOverride(each.flag, each.assignment, draft));
  }
  ZF_RETURN_IF_ERROR(FindStoredModel(draft));
  ZF_RETURN_IF_ERROR(FindTokenizer(draft));
  ZF_RETURN_IF_ERROR(FillDefaults(draft));
  ZF_RETURN_IF_ERROR(CheckStoredModel(draft));
  ZF_RETURN_IF_ERROR(CheckConfig(draft));
  ZF_RETURN_IF_ERROR(CheckVocabulary(draft));
  return draft.config;
}

absl::StatusOr<v1::Config> LoadConfig(const std::string& path, const std::vector<ConfigOverride>& overrides) {
  if (IsDirectory(path))
    return absl::InvalidArgumentError(absl::StrCat(path, ": a directory, not a configuration file"));
  absl::StatusOr<std::string> text = ReadSmallFile(path, kLargestFile);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  return ParseConfig(*text, path, overrides);
}

absl::StatusOr<v1::Config> DefaultConfig(const std::string& preset) {
  ConfigDraft draft;
  draft.file = "--preset";
  draft.config.mutable_model()->set_preset(preset);
  ZF_RETURN_IF_ERROR(FillDefaults(draft));
  return draft.config;
}

}  // namespace zerofleet::cli
