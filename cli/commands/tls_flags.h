// --tls-ca, --tls-cert and --tls-key, the same in every command that serves or calls.
#ifndef ZEROFLEET_CLI_COMMANDS_TLS_FLAGS_H_
#define ZEROFLEET_CLI_COMMANDS_TLS_FLAGS_H_

#include "services/tls.h"

namespace CLI {
class App;
}

namespace zerofleet::cli {

// What the flags mean differs with the side: a server asks clients for certificates, a client verifies the server.
void AddServerTlsFlags(CLI::App& command, services::TlsFiles& files);
void AddClientTlsFlags(CLI::App& command, services::TlsFiles& files);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_COMMANDS_TLS_FLAGS_H_
