// Which keys a configuration leaves open, for callers that choose their values by other means than the defaults.
#ifndef ZEROFLEET_CLI_CONFIG_OPEN_KEYS_H_
#define ZEROFLEET_CLI_CONFIG_OPEN_KEYS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/config/config.h"

namespace zerofleet::cli {

// The subset of `keys` that neither the file at `path`, which LoadConfig must have accepted, nor the overrides give.
absl::StatusOr<std::set<std::string>> KeysLeftOpen(const std::string& path,
                                                   const std::vector<ConfigOverride>& overrides,
                                                   const std::vector<std::string>& keys);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_CONFIG_OPEN_KEYS_H_
