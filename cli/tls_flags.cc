// The flags of both sides; see tls_flags.h.
#include "cli/tls_flags.h"

#include "CLI/CLI.hpp"

namespace zerofleet {

void AddServerTlsFlags(CLI::App& command, TlsFiles& files) {
  command.add_option("--tls-cert", files.certificate, "Serve TLS with this certificate, PEM");
  command.add_option("--tls-key", files.key, "The key of --tls-cert, PEM");
  command.add_option("--tls-ca", files.ca, "Take only clients with a certificate signed by this authority, PEM");
}

void AddClientTlsFlags(CLI::App& command, TlsFiles& files) {
  command.add_option("--tls-ca", files.ca, "Use TLS; the authority that signed the coordinator's certificate, PEM");
  command.add_option("--tls-cert", files.certificate, "This process's certificate, for a coordinator that wants one");
  command.add_option("--tls-key", files.key, "The key of --tls-cert, PEM");
}

}  // namespace zerofleet
