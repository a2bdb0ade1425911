// See open_keys.h.
#include "cli/config/open_keys.h"

#include <cstdint>

#include "base/file.h"
#include "base/status.h"
#include "cli/config/config_text.h"

namespace zerofleet::cli {

absl::StatusOr<std::set<std::string>> KeysLeftOpen(const std::string& path,
                                                   const std::vector<ConfigOverride>& overrides,
                                                   const std::vector<std::string>& keys) {
  constexpr int64_t kLargestFile = 1 << 20;  // bytes; LoadConfig has the same limit
  ConfigDraft draft;
  draft.file = path;
  ZF_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path, kLargestFile));
  ZF_RETURN_IF_ERROR(ReadConfigText(text, draft));
  for (const ConfigOverride& each : overrides) ZF_RETURN_IF_ERROR(ApplyOverride(each.flag, each.assignment, draft));
  std::set<std::string> open;
  for (const std::string& key : keys) {
    if (!draft.Given(key)) open.insert(key);
  }
  return open;
}

}  // namespace zerofleet::cli
