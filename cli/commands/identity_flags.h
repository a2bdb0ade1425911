// Flags that say who this process is and whom it trusts: --token-file and related ones. TLS files have flags of their
// own (tls_flags.h). docs/security.md says what they protect.
#ifndef ZEROFLEET_CLI_COMMANDS_IDENTITY_FLAGS_H_
#define ZEROFLEET_CLI_COMMANDS_IDENTITY_FLAGS_H_

#include <string>

#include "absl/status/statusor.h"
#include "services/common/address.h"
#include "services/security/access.h"
#include "services/security/tls.h"

namespace CLI {
class App;
}

namespace zerofleet::cli {

// What a coordinator requires of its callers.
struct AccessFlags {
  std::string token_file, operator_token_file, worker_name, operator_name;
};
void AddAccessFlags(CLI::App& command, AccessFlags& flags);
// InvalidArgument, naming the flag, for an unsuitable token file or flags that conflict.
absl::StatusOr<services::AccessOptions> ReadAccess(const AccessFlags& flags, const services::TlsFiles& tls);

// The token that a client presents: `path` names its file; no token if `path` is empty.
void AddTokenFlag(CLI::App& command, std::string& path);
absl::StatusOr<std::string> ReadToken(const std::string& path);

// The warning to print before a coordinator serves on `address`: empty if its port is on loopback only or its callers
// must authenticate.
std::string ExposureWarning(const services::Address& address, const services::AccessOptions& access);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_IDENTITY_FLAGS_H_
