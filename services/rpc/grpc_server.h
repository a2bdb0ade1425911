// A gRPC server as every process here runs it: services, health (grpc.health.v1) and reflection on one port.
#ifndef ZEROFLEET_SERVICES_RPC_GRPC_SERVER_H_
#define ZEROFLEET_SERVICES_RPC_GRPC_SERVER_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/common/refusals.h"
#include "services/rpc/listener.h"
#include "services/security/tls.h"

namespace grpc {
class Service;
class Server;
}  // namespace grpc

namespace zerofleet::services {

// How long each part of Answers may take before a process counts as broken.
inline constexpr absl::Duration kProbeLimit = absl::Seconds(1);

struct GrpcServerOptions {
  std::string listen;                          // HOST:PORT; port 0 = any free one
  std::vector<grpc::Service*> services = {};   // borrowed; they outlive the server
  std::vector<std::string> health_names = {};  // full names of the services that health checks may name
  TlsFiles tls = {};                           // none: plaintext
  TlsObserver observer = {};                   // told about TLS clients and files
  int most_message_bytes = 64 << 10;           // the largest message accepted from a client
  // How long a ping, or sent bytes, may stay unanswered before the connection is ended.
  int answer_timeout_ms = kKeepaliveTimeoutMs;
  size_t most_connections = 4096;  // see ListenerOptions
  size_t most_per_address = 256;
  // Called for each client that is refused for lack of room; see ListenerOptions.
  std::function<void(const std::string& address, const std::string& why)> turned_away = nullptr;
};

class GrpcServer {
 public:
  ~GrpcServer();  // as Shutdown(0)
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  int port() const { return listener_->port(); }

  // Whether its port accepts a connection and its health service answers a call, both within `limit`; Unavailable says
  // which does not. OK once it is shut down. From any thread.
  absl::Status Answers(absl::Duration limit);

  // Sets what health checks answer; a new server is serving.
  void SetServing(bool serving);

  // Accepts no new calls, gives those in progress `deadline_seconds` to end, then cancels them. Returns when none is
  // left (a handler that ignores its cancellation delays this). Idempotent.
  void Shutdown(double deadline_seconds);

 private:
  friend absl::StatusOr<std::unique_ptr<GrpcServer>> StartGrpcServer(const GrpcServerOptions& options);
  GrpcServer(std::unique_ptr<grpc::Server> server, std::unique_ptr<Listener> listener,
             std::vector<std::string> health_names);

  std::unique_ptr<grpc::Server> server_;
  const std::unique_ptr<Listener> listener_;
  std::atomic<bool> shut_down_ = false;
  const std::vector<std::string> health_names_;
};

// A `turned_away` that reports to `refusals`.
std::function<void(const std::string& address, const std::string& why)> TurnedAwayTo(
    const std::shared_ptr<Refusals>& refusals);

// A TLS observer that reports to `refusals`.
TlsObserver ObserverOf(const std::shared_ptr<Refusals>& refusals);

// gRPC's channel arguments for a server's connections, by name.
std::map<std::string, int> ServerArguments(const GrpcServerOptions& options);

// Starts serving. InvalidArgument for a malformed address or a TLS file, FailedPrecondition naming the address if
// it cannot be listened on; a port that another process listens on is never shared.
absl::StatusOr<std::unique_ptr<GrpcServer>> StartGrpcServer(const GrpcServerOptions& options);

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_RPC_GRPC_SERVER_H_
