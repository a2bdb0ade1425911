// Whether a complete configuration can be trained, as far as the configuration alone can tell.
//
// Ranges and choices are tables; what ties two keys together is a function each. A new key gets a row.
#ifndef ZEROFLEET_CLI_CONFIG_CHECK_H_
#define ZEROFLEET_CLI_CONFIG_CHECK_H_

#include "absl/status/status.h"
#include "cli/config_text.h"

namespace zerofleet {

// InvalidArgument with the first thing that is wrong, and what would be right. `draft` has its defaults filled in.
absl::Status CheckConfig(const ConfigDraft& draft);

}  // namespace zerofleet

#endif  // ZEROFLEET_CLI_CONFIG_CHECK_H_
