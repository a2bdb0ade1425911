// See identity_flags.h.
#include "cli/commands/identity_flags.h"

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "services/security/token.h"

namespace zerofleet::cli {
namespace {

constexpr char kTokenFlag[] = "--token-file", kOperatorTokenFlag[] = "--operator-token-file";

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" || absl::StartsWith(host, "127.");
}

}  // namespace

void AddAccessFlags(CLI::App& command, AccessFlags& flags) {
  const services::AccessOptions defaults;
  flags.worker_name = defaults.worker_name;
  flags.operator_name = defaults.operator_name;
  command.add_option(kTokenFlag, flags.token_file, "Accept only callers that show the token in this file")
      ->type_name("FILE");
  command.add_option(kOperatorTokenFlag, flags.operator_token_file, "A token of its own for watching and stopping")
      ->type_name("FILE");
  command
      .add_option("--tls-worker-name", flags.worker_name,
                  "With --tls-ca: the alternative name that a worker's certificate must have")
      ->type_name("NAME")
      ->capture_default_str();
  command
      .add_option("--tls-operator-name", flags.operator_name,
                  "With --tls-ca: the alternative name that an operator's certificate must have")
      ->type_name("NAME")
      ->capture_default_str();
}

absl::StatusOr<services::AccessOptions> ReadAccess(const AccessFlags& flags, const services::TlsFiles& tls) {
  services::AccessOptions access;
  access.certificates = !tls.ca.empty();
  access.worker_name = flags.worker_name;
  access.operator_name = flags.operator_name;
  if (!flags.token_file.empty()) {
    ZF_ASSIGN_OR_RETURN(access.worker_token, services::ReadTokenFile(kTokenFlag, flags.token_file));
  }
  if (!flags.operator_token_file.empty()) {
    if (flags.token_file.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(kOperatorTokenFlag, ": needs ", kTokenFlag, " as well, or anybody could join the run"));
    }
    ZF_ASSIGN_OR_RETURN(access.operator_token, services::ReadTokenFile(kOperatorTokenFlag, flags.operator_token_file));
  }
  return access;
}

void AddTokenFlag(CLI::App& command, std::string& path) {
  command.add_option(kTokenFlag, path, "Show the coordinator the token in this file")->type_name("FILE");
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  if (path.empty()) return std::string();
  return services::ReadTokenFile(kTokenFlag, path);
}

std::string ExposureWarning(const services::Address& address, const services::AccessOptions& access) {
  if (IsLoopback(address.host) || !services::AccessControl(access).open()) return "";
  return absl::StrCat("listening on ", address.ToString(), " without ", kTokenFlag,
                      " or --tls-ca: whoever reaches this port can join, watch and stop the run");
}

}  // namespace zerofleet::cli
