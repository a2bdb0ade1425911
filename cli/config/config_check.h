// Whether a complete configuration can be trained, as far as the configuration alone can tell: each key has a value
// that its row allows (keys.h), and the keys go together (worker/trainer/rules.h).
#ifndef ZEROFLEET_CLI_CONFIG_CONFIG_CHECK_H_
#define ZEROFLEET_CLI_CONFIG_CONFIG_CHECK_H_

#include "absl/status/status.h"
#include "cli/config/config_text.h"

namespace zerofleet::cli {

// InvalidArgument with the first fault, and what would be right. `draft` has its defaults filled in.
absl::Status CheckConfig(const ConfigDraft& draft);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_CONFIG_CONFIG_CHECK_H_
