// --tls-ca, --tls-cert and --tls-key, the same in every command that serves or calls.
#ifndef ZEROFLEET_CLI_COMMANDS_TLS_FLAGS_H_
#define ZEROFLEET_CLI_COMMANDS_TLS_FLAGS_H_

#include "absl/status/statusor.h"
#include "services/security/tls.h"

namespace CLI {
class App;
}

namespace zerofleet::cli {

// What the flags mean differs with the side: a server asks clients for certificates, a client verifies the server.
void AddServerTlsFlags(CLI::App& command, services::TlsFiles& files);
void AddClientTlsFlags(CLI::App& command, services::TlsFiles& files);

// Adds --metrics-tls, for coordinators and workers. To be called after --metrics-port was added, which the flag needs.
void AddMetricsTlsFlag(CLI::App& command, bool& asked);
// The TLS files to serve metrics with. InvalidArgument if `asked` without the files that TLS needs.
absl::StatusOr<services::TlsFiles> MetricsTls(bool asked, const services::TlsFiles& files);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_TLS_FLAGS_H_
