// What every gRPC client and server here shares: limits, keepalive, channels, and statuses in our terms.
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

// The largest message a client takes of its coordinator: the status, or the end, of a run with coordinator::kMostRanks
// ranks has 1 or 2 KB for each. What a server takes is its own choice (GrpcServerOptions).
inline constexpr int kMostClientMessageBytes = 64 << 20;

// Drops gRPC's own log lines, which would stand between our one-line errors, unless GRPC_VERBOSITY asks for them.
void QuietGrpcLog();

// A channel that reconnects by itself, waiting 0.1 s to 2 s between attempts, and never goes through an HTTP proxy.
// Plaintext without `credentials`.
// A server's certificate is verified against `server_name` where there is one, else against the address's host.
std::shared_ptr<grpc::Channel> MakeChannel(const Address& address,
                                           const std::shared_ptr<grpc::ChannelCredentials>& credentials = nullptr,
                                           const std::string& server_name = "");

// The error of a coordinator at `coordinator` that could not be connected to for so long: Unavailable, with what gRPC
// says of its last attempt.
absl::Status NoCoordinator(const std::shared_ptr<grpc::Channel>& channel, const std::string& coordinator,
                           double waited_seconds);

// `status` as absl: the code the peer chose if it says whose fault it is (configuration, data), else Unavailable; the
// message starts with `context`. A call refused because of the caller's identity is FailedPrecondition.
absl::Status FromGrpc(const grpc::Status& status, const std::string& context);

// The other way: a status for the caller of one of our servers.
grpc::Status ToGrpc(const absl::Status& status);

// What the caller of a server's call has shown of itself.
Peer PeerOf(const grpc::ServerContextBase& context);

// Adds the metadata by which the other side knows the trace, if there is one (trace.h).
void CarryTrace(grpc::ClientContext& context, const std::string& trace_id);
// Shows `token` with a client's call; an empty one is none.
void ShowToken(grpc::ClientContext& context, const std::string& token);

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_RPC_GRPC_COMMON_H_
