// What every gRPC client and server here shares: limits, keepalive, channels, and translation of statuses.
//
// Includes gRPC's headers; only .cc files of this folder include it.
#ifndef ZEROFLEET_SERVICES_RPC_GRPC_COMMON_H_
#define ZEROFLEET_SERVICES_RPC_GRPC_COMMON_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/status.h"
#include "services/common/address.h"
#include "services/rpc/listener.h"  // kKeepaliveTimeMs
#include "services/security/access.h"

namespace zerofleet::services {

// The largest message that a client accepts from its coordinator: for a run with coordinator::kMostRanks ranks, the
// status and the end event have 1 or 2 KB per rank. Servers have a limit of their own (GrpcServerOptions).
inline constexpr int kMostClientMessageBytes = 64 << 20;

// Drops gRPC's own log lines, which would mix with this program's one-line errors, unless GRPC_VERBOSITY is set.
void QuietGrpcLog();

// A channel that reconnects by itself, waiting 0.1 s to 2 s between attempts, and never goes through an HTTP proxy.
// Plaintext without `credentials`.
// A server's certificate is verified against `server_name` where there is one, else against the address's host.
std::shared_ptr<grpc::Channel> MakeChannel(const Address& address,
                                           const std::shared_ptr<grpc::ChannelCredentials>& credentials = nullptr,
                                           const std::string& server_name = "");

// The error if no connection to `coordinator` was made for `waited_seconds`: Unavailable, with what gRPC says about its
// last attempt.
absl::Status NoCoordinator(const std::shared_ptr<grpc::Channel>& channel, const std::string& coordinator,
                           double waited_seconds);

// `status` as an absl::Status: the peer's code if it says what is at fault (configuration, data), else Unavailable; the
// message starts with `context`. A call refused because of the caller's identity is FailedPrecondition.
absl::Status FromGrpc(const grpc::Status& status, const std::string& context);

// The reverse: a status for the caller of one of this program's servers.
grpc::Status ToGrpc(const absl::Status& status);

// The token and the certificate's names that a caller has shown.
Peer PeerOf(const grpc::ServerContextBase& context);

// Adds the metadata that carries the trace id (trace.h), unless that is empty.
void CarryTrace(grpc::ClientContext& context, const std::string& trace_id);
// Adds `token` to a client's call, unless it is empty.
void ShowToken(grpc::ClientContext& context, const std::string& token);

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_RPC_GRPC_COMMON_H_
