// Who may make which call: roles, and what a peer must show for them. docs/security.md is the user's page.
//
// A fleet knows two roles. A worker may join; an operator may watch the run's events and stop it. Status, health and
// metrics are open to everybody who reaches the port. A role is proved by a token (--token-file), by a name in a
// certificate that the authority has signed (--tls-ca), or by both if both are configured.
#ifndef ZEROFLEET_SERVICES_SECURITY_ACCESS_H_
#define ZEROFLEET_SERVICES_SECURITY_ACCESS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace zerofleet::services {

enum class Role { kWorker, kOperator };

struct AccessOptions {
  // Without a worker token no token is required. Without an operator token, the workers' is valid for both roles.
  std::string worker_token, operator_token;
  // Whether peers have certificates of the fleet's authority; these must then have the role's name among their
  // alternative names, as a DNS name or URI.
  bool certificates = false;
  std::string worker_name = "zerofleet-worker", operator_name = "zerofleet-operator";
};

// What a caller has shown.
struct Peer {
  std::vector<std::string> authorization;  // values of the "authorization" metadata
  std::vector<std::string> names;          // alternative names of its verified certificate
};

class AccessControl {
 public:
  explicit AccessControl(AccessOptions options) : options_(std::move(options)) {}

  // Unauthenticated for a token that is missing or is not the fleet's; PermissionDenied for one of the other role, or
  // for a certificate without the role's name.
  absl::Status Check(Role role, const Peer& peer) const;

  // Whether every caller may make every call.
  bool open() const { return options_.worker_token.empty() && !options_.certificates; }

 private:
  absl::Status CheckToken(Role role, const Peer& peer) const;
  absl::Status CheckCertificate(Role role, const Peer& peer) const;

  const AccessOptions options_;
};

// The value of the "authorization" metadata for `token`.
std::string AuthorizationOf(const std::string& token);
inline constexpr char kAuthorization[] = "authorization";

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_SECURITY_ACCESS_H_
