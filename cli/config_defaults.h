// What a key that was left out means: the one place that supplies defaults (docs/configuration.md lists them).
#ifndef ZEROFLEET_CLI_CONFIG_DEFAULTS_H_
#define ZEROFLEET_CLI_CONFIG_DEFAULTS_H_

#include "absl/status/status.h"
#include "cli/config_text.h"

namespace zerofleet {

// Fills every key that `draft` was not given, so that draft.config is complete. InvalidArgument for an unknown preset,
// and for a model that names neither a preset nor its sizes.
absl::Status FillDefaults(ConfigDraft& draft);

}  // namespace zerofleet

#endif  // ZEROFLEET_CLI_CONFIG_DEFAULTS_H_
