// The flags of both sides; see tls_flags.h.
#include "cli/commands/tls_flags.h"

#include "CLI/CLI.hpp"

namespace zerofleet::cli {

void AddServerTlsFlags(CLI::App& command, services::TlsFiles& files) {
  command.add_option("--tls-cert", files.certificate, "Serve TLS with this certificate, PEM")->type_name("FILE");
  command.add_option("--tls-key", files.key, "The key of --tls-cert, PEM")->type_name("FILE");
  command.add_option("--tls-ca", files.ca, "Accept only clients with a certificate signed by this authority, PEM")
      ->type_name("FILE");
}

void AddClientTlsFlags(CLI::App& command, services::TlsFiles& files) {
  command.add_option("--tls-ca", files.ca, "Use TLS; the authority that signed the coordinator's certificate, PEM")
      ->type_name("FILE");
  command
      .add_option("--tls-cert", files.certificate,
                  "This process's certificate, PEM, for a coordinator that requires one")
      ->type_name("FILE");
  command.add_option("--tls-key", files.key, "The key of --tls-cert, PEM")->type_name("FILE");
  command
      .add_option("--tls-server-name", files.server_name,
                  "The name that the coordinator's certificate must have, instead of the host of --coordinator")
      ->type_name("NAME");
}

void AddMetricsTlsFlag(CLI::App& command, bool& asked) {
  command
      .add_flag(
          "--metrics-tls", asked,
          "Serve metrics over TLS, with --tls-cert and --tls-key; with --tls-ca, to clients with a certificate of "
          "that authority alone")
      ->needs("--metrics-port");
}

absl::StatusOr<services::TlsFiles> MetricsTls(bool asked, const services::TlsFiles& files) {
  if (!asked) return services::TlsFiles();
  if (files.certificate.empty()) {
    return absl::InvalidArgumentError("--metrics-tls: needs --tls-cert and --tls-key as well: a TLS server has both");
  }
  return files;
}

}  // namespace zerofleet::cli
