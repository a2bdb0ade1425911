// A server with its services, health and reflection; see grpc_server.h.
#include "services/grpc_server.h"

#include <chrono>
#include <utility>

#include "base/status.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "services/address.h"
#include "services/grpc_common.h"

namespace zerofleet::services {
namespace {

// A client here has a handful of calls at most, and no reason to keep a connection without any.
constexpr int kMostCallsPerConnection = 32;
constexpr int kMostMetadataBytes = 16 << 10;
constexpr int kIdleConnectionMs = 300'000;

}  // namespace

GrpcServer::GrpcServer(std::unique_ptr<grpc::Server> server, int port, std::vector<std::string> health_names)
    : server_(std::move(server)), port_(port), health_names_(std::move(health_names)) {
  SetServing(true);
}

GrpcServer::~GrpcServer() { Shutdown(0); }

void GrpcServer::SetServing(bool serving) {
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  health->SetServingStatus(serving);
  for (const std::string& name : health_names_) health->SetServingStatus(name, serving);
}

void GrpcServer::Shutdown(double deadline_seconds) {
  server_->GetHealthCheckService()->Shutdown();
  const auto patience =
      std::chrono::duration_cast<std::chrono::system_clock::duration>(std::chrono::duration<double>(deadline_seconds));
  server_->Shutdown(std::chrono::system_clock::now() + patience);
  server_->Wait();
}

TlsObserver ObserverOf(const std::shared_ptr<Refusals>& refusals) {
  return {.refused = [refusals](const std::string& reason) { refusals->AddHandshake(reason); },
          .warn = [refusals](const std::string& line) { refusals->Warn(line); }};
}

absl::StatusOr<std::unique_ptr<GrpcServer>> StartGrpcServer(const GrpcServerOptions& options) {
  ZF_ASSIGN_OR_RETURN(const Address address, ParseAddress(options.listen));
  ZF_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ServerCredentials> credentials,
                      ServerCredentialsFrom(options.tls, options.observer));
  QuietGrpcLog();
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address.ToString(), credentials, &port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.SetMaxReceiveMessageSize(options.most_message_bytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostCallsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMostMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleConnectionMs);
  for (grpc::Service* service : options.services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) return CannotListen(address);
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(server), port, options.health_names));
}

}  // namespace zerofleet::services
