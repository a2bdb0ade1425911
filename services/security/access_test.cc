// Every role with every way to show it: the right one, none, a wrong one, the other role's.
#include "services/security/access.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zerofleet::services {
namespace {

using ::testing::HasSubstr;

constexpr char kWorkerToken[] = "worker-token-0123456789", kOperatorToken[] = "operator-token-0123456789";

AccessOptions Options(const std::string& worker_token, const std::string& operator_token, bool certificates) {
  AccessOptions options;
  options.worker_token = worker_token;
  options.operator_token = operator_token;
  options.certificates = certificates;
  return options;
}

Peer With(const std::string& token) { return {.authorization = {AuthorizationOf(token)}, .names = {}}; }
Peer Named(std::vector<std::string> names) { return {.authorization = {}, .names = std::move(names)}; }

absl::StatusCode Code(const AccessControl& access, Role role, const Peer& peer) {
  return access.Check(role, peer).code();
}

TEST(Access, WithNothingConfiguredEverybodyMay) {
  const AccessControl access(AccessOptions{});
  EXPECT_TRUE(access.open());
  EXPECT_TRUE(access.Check(Role::kWorker, {}).ok());
  EXPECT_TRUE(access.Check(Role::kOperator, {}).ok());
}

TEST(Access, OneTokenServesBothRoles) {
  const AccessControl access(Options(kWorkerToken, "", false));
  EXPECT_FALSE(access.open());
  for (const Role role : {Role::kWorker, Role::kOperator}) {
    EXPECT_TRUE(access.Check(role, With(kWorkerToken)).ok());
    EXPECT_EQ(Code(access, role, {}), absl::StatusCode::kUnauthenticated);
    EXPECT_EQ(Code(access, role, With("worker-token-012345678")), absl::StatusCode::kUnauthenticated);
    EXPECT_EQ(Code(access, role, With("")), absl::StatusCode::kUnauthenticated);
    EXPECT_EQ(Code(access, role, {.authorization = {kWorkerToken}, .names = {}}), absl::StatusCode::kUnauthenticated);
    EXPECT_EQ(Code(access, role, {.authorization = {AuthorizationOf("x"), AuthorizationOf(kWorkerToken)}, .names = {}}),
              absl::StatusCode::kUnauthenticated);
  }
}

TEST(Access, TwoTokensKeepTheRolesApart) {
  const AccessControl access(Options(kWorkerToken, kOperatorToken, false));
  EXPECT_TRUE(access.Check(Role::kWorker, With(kWorkerToken)).ok());
  EXPECT_TRUE(access.Check(Role::kOperator, With(kOperatorToken)).ok());
  const absl::Status worker_stops = access.Check(Role::kOperator, With(kWorkerToken));
  EXPECT_EQ(worker_stops.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(worker_stops.message()), HasSubstr("needs an operator's token; the one shown is a worker's"));
  EXPECT_EQ(Code(access, Role::kWorker, With(kOperatorToken)), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Code(access, Role::kWorker, {}), absl::StatusCode::kUnauthenticated);
}

TEST(Access, ACertificateNeedsTheRolesName) {
  const AccessControl access(Options("", "", true));
  EXPECT_FALSE(access.open());
  EXPECT_TRUE(access.Check(Role::kWorker, Named({"node-1", "zerofleet-worker"})).ok());
  EXPECT_TRUE(access.Check(Role::kOperator, Named({"zerofleet-operator"})).ok());
  EXPECT_EQ(Code(access, Role::kOperator, Named({"zerofleet-worker"})), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Code(access, Role::kWorker, Named({"zerofleet-workers"})), absl::StatusCode::kPermissionDenied);
  const absl::Status nameless = access.Check(Role::kWorker, {});
  EXPECT_EQ(nameless.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(nameless.message()), HasSubstr("alternative name zerofleet-worker; the one shown has none"));
}

TEST(Access, NamesCanBeChosenAndBothWaysRequired) {
  AccessOptions options = Options(kWorkerToken, "", true);
  options.worker_name = "spiffe://prod/trainer";
  const AccessControl access(options);
  Peer peer = With(kWorkerToken);
  EXPECT_EQ(Code(access, Role::kWorker, peer), absl::StatusCode::kPermissionDenied);
  peer.names = {"spiffe://prod/trainer"};
  EXPECT_TRUE(access.Check(Role::kWorker, peer).ok());
  peer.authorization.clear();
  EXPECT_EQ(Code(access, Role::kWorker, peer), absl::StatusCode::kUnauthenticated);
}

}  // namespace
}  // namespace zerofleet::services
