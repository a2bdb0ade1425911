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

// --metrics-tls, of both sides; after --metrics-port, which it needs.
void AddMetricsTlsFlag(CLI::App& command, bool& asked);
// What metrics are served with. InvalidArgument if TLS is asked for without the files that it takes.
absl::StatusOr<services::TlsFiles> MetricsTls(bool asked, const services::TlsFiles& files);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_TLS_FLAGS_H_
