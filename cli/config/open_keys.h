// Which keys a configuration leaves at their defaults, for what fills them by other means.
#ifndef ZEROFLEET_CLI_CONFIG_OPEN_KEYS_H_
#define ZEROFLEET_CLI_CONFIG_OPEN_KEYS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/config/config.h"

namespace zerofleet::cli {

// Those of `keys` that neither the file at `path`, which LoadConfig has read, nor the overrides give.
absl::StatusOr<std::set<std::string>> KeysLeftOpen(const std::string& path,
                                                   const std::vector<ConfigOverride>& overrides,
                                                   const std::vector<std::string>& keys);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_CONFIG_OPEN_KEYS_H_
