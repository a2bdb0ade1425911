// Tokens and certificate names against roles; see access.h.
#include "services/security/access.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "services/common/message_limits.h"
#include "services/security/token.h"

namespace zerofleet::services {
namespace {

constexpr char kBearer[] = "Bearer ";
constexpr size_t kMostNamesText = 256;

const char* Name(Role role) { return role == Role::kWorker ? "a worker's" : "an operator's"; }
Role Other(Role role) { return role == Role::kWorker ? Role::kOperator : Role::kWorker; }

}  // namespace

std::string AuthorizationOf(const std::string& token) { return absl::StrCat(kBearer, token); }

absl::Status AccessControl::Check(Role role, const Peer& peer) const {
  ZF_RETURN_IF_ERROR(CheckToken(role, peer));
  return CheckCertificate(role, peer);
}

absl::Status AccessControl::CheckToken(Role role, const Peer& peer) const {
  if (options_.worker_token.empty()) return absl::OkStatus();
  const auto token_of = [this](Role of) {
    return of == Role::kOperator && !options_.operator_token.empty() ? options_.operator_token : options_.worker_token;
  };
  if (peer.authorization.size() != 1) {
    return absl::UnauthenticatedError(
        absl::StrCat("this call needs ", Name(role), " token, and none came with it; give --token-file"));
  }
  const std::string& shown = peer.authorization.front();
  if (SameToken(shown, AuthorizationOf(token_of(role)))) return absl::OkStatus();
  if (SameToken(shown, AuthorizationOf(token_of(Other(role))))) {
    return absl::PermissionDeniedError(
        absl::StrCat("this call needs ", Name(role), " token; the one shown is ", Name(Other(role))));
  }
  return absl::UnauthenticatedError("the token shown is not this fleet's; check --token-file");
}

absl::Status AccessControl::CheckCertificate(Role role, const Peer& peer) const {
  if (!options_.certificates) return absl::OkStatus();
  const std::string& wanted = role == Role::kWorker ? options_.worker_name : options_.operator_name;
  if (std::find(peer.names.begin(), peer.names.end(), wanted) != peer.names.end()) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "this call needs ", Name(role), " certificate: one with the alternative name ", wanted, "; the one shown has ",
      peer.names.empty() ? "none" : PrintableText(absl::StrJoin(peer.names, ", "), kMostNamesText)));
}

}  // namespace zerofleet::services
