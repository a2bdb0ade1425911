// What gRPC clients and servers share: statuses, channel arguments; see grpc_common.h.
#include "services/rpc/grpc_common.h"
#include "services/common/trace.h"

#include <chrono>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "coordinator/away.h"
#include "grpc/grpc_security_constants.h"
#include "grpc/support/log.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/support/channel_arguments.h"
#include "zerofleet/v1/coordinator.grpc.pb.h"

namespace zerofleet::services {

namespace {

constexpr int Milliseconds(double seconds) { return static_cast<int>(1000 * seconds); }

}  // namespace

void QuietGrpcLog() {
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
}

std::shared_ptr<grpc::Channel> MakeChannel(const Address& address,
                                           const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                                           const std::string& server_name) {
  QuietGrpcLog();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMostClientMessageBytes);
  if (!server_name.empty()) arguments.SetSslTargetNameOverride(server_name);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Despite its name this is the longest that one attempt may take.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, Milliseconds(coordinator::kConnectSeconds));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, Milliseconds(coordinator::kConnectPauseSeconds));
  // Resolves names before each attempt, not every 30 s: a coordinator that was restarted elsewhere has another address.
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, Milliseconds(coordinator::kConnectPauseSeconds));
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(
      address.ToString(), credentials != nullptr ? credentials : grpc::InsecureChannelCredentials(), arguments);
}

absl::Status NoCoordinator(const std::shared_ptr<grpc::Channel>& channel, const std::string& coordinator,
                           double waited_seconds) {
  // A call on a channel that cannot connect fails with the reason at once; the channel itself does not report it.
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(2));
  v1::GetStatusResponse response;
  const grpc::Status status = v1::Coordinator::NewStub(channel)->GetStatus(&context, {}, &response);
  const std::string reason = status.error_code() == grpc::StatusCode::UNAVAILABLE ? status.error_message() : "";
  return absl::UnavailableError(absl::StrCat("no coordinator answered at ", coordinator, " within ", waited_seconds,
                                             " s; check the address, that it is running, and that both sides' TLS "
                                             "flags fit",
                                             reason.empty() ? "" : "; ", reason));
}

absl::Status FromGrpc(const grpc::Status& status, const std::string& context) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = absl::StrCat(context, ": ", status.error_message());
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kDeadlineExceeded: return absl::Status(code, message);
    case absl::StatusCode::kUnimplemented:
      return absl::UnavailableError(absl::StrCat(context, ": what answers there is not a Zerofleet coordinator"));
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied: return absl::FailedPreconditionError(message);
    default: return absl::UnavailableError(message);
  }
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

Peer PeerOf(const grpc::ServerContextBase& context) {
  Peer peer;
  const auto range = context.client_metadata().equal_range(kAuthorization);
  for (auto each = range.first; each != range.second; ++each) {
    peer.authorization.emplace_back(each->second.data(), each->second.size());
  }
  const std::shared_ptr<const grpc::AuthContext> shown = context.auth_context();
  if (shown == nullptr || !shown->IsPeerAuthenticated()) return peer;
  for (const grpc::string_ref& name : shown->FindPropertyValues(GRPC_X509_SAN_PROPERTY_NAME)) {
    peer.names.emplace_back(name.data(), name.size());
  }
  return peer;
}

void CarryTrace(grpc::ClientContext& context, const std::string& trace_id) {
  if (!trace_id.empty()) context.AddMetadata(kTraceparent, TraceparentOf(trace_id));
}

void ShowToken(grpc::ClientContext& context, const std::string& token) {
  if (!token.empty()) context.AddMetadata(kAuthorization, AuthorizationOf(token));
}

}  // namespace zerofleet::services
