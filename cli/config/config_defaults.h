// The values of omitted keys: the defaults in their rows (keys.h), and those that depend on other keys, which are
// computed here.
#ifndef ZEROFLEET_CLI_CONFIG_CONFIG_DEFAULTS_H_
#define ZEROFLEET_CLI_CONFIG_CONFIG_DEFAULTS_H_

#include "absl/status/status.h"
#include "cli/config/config_text.h"

namespace zerofleet::cli {

// Fills in every key that is missing from `draft`, so that draft.config is complete. InvalidArgument for an unknown
// preset, and for a model that names neither a preset nor its sizes.
absl::Status FillDefaults(ConfigDraft& draft);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_CONFIG_CONFIG_DEFAULTS_H_
