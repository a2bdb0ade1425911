// A server with its services, health and reflection; see grpc_server.h.
#include "services/rpc/grpc_server.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "services/common/address.h"
#include "services/rpc/grpc_common.h"

namespace zerofleet::services {
namespace {

// A client here has a handful of calls at most, and no reason to keep a connection without any.
constexpr int kMostCallsPerConnection = 32;
constexpr int kMostMetadataBytes = 16 << 10;
constexpr int kIdleConnectionMs = 300'000;
// For TLS and the first HTTP/2 frame: a client that connects and says nothing is dropped.
constexpr int kHandshakeMs = 10'000;
constexpr char kHandshakeArgument[] = "grpc.server_handshake_timeout_ms";

// Whether the health service answers one call, over a channel inside the process, no matter what it answers.
absl::Status HealthAnswers(grpc::Server& server, absl::Duration limit) {
  grpc::GenericStub stub(server.InProcessChannel({}));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + limit));
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", grpc::ByteBuffer(), &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("no call is answered within ", absl::FormatDuration(limit)));
}

}  // namespace

GrpcServer::GrpcServer(std::unique_ptr<grpc::Server> server, std::unique_ptr<Listener> listener,
                       std::vector<std::string> health_names)
    : server_(std::move(server)), listener_(std::move(listener)), health_names_(std::move(health_names)) {
  SetServing(true);
}

GrpcServer::~GrpcServer() { Shutdown(0); }

void GrpcServer::SetServing(bool serving) {
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  health->SetServingStatus(serving);
  for (const std::string& name : health_names_) health->SetServingStatus(name, serving);
}

absl::Status GrpcServer::Answers(absl::Duration limit) {
  if (shut_down_) return absl::OkStatus();
  absl::Status status = listener_->Probe(limit);
  if (status.ok()) status = HealthAnswers(*server_, limit);
  if (status.ok() || shut_down_) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("gRPC port ", port(), ": ", std::string(status.message())));
}

void GrpcServer::Shutdown(double deadline_seconds) {
  shut_down_ = true;
  listener_->Stop();
  server_->GetHealthCheckService()->Shutdown();
  const auto patience =
      std::chrono::duration_cast<std::chrono::system_clock::duration>(std::chrono::duration<double>(deadline_seconds));
  server_->Shutdown(std::chrono::system_clock::now() + patience);
  server_->Wait();
}

std::function<void(const std::string& address, const std::string& why)> TurnedAwayTo(
    const std::shared_ptr<Refusals>& refusals) {
  return [refusals](const std::string& address, const std::string& why) { refusals->AddConnection(address, why); };
}

TlsObserver ObserverOf(const std::shared_ptr<Refusals>& refusals) {
  return {.refused = [refusals](const std::string& reason) { refusals->AddHandshake(reason); },
          .warn = [refusals](const std::string& line) { refusals->Warn(line); }};
}

std::map<std::string, int> ServerArguments(const GrpcServerOptions& options) {
  return {{kHandshakeArgument, kHandshakeMs},
          {GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs},
          {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, options.answer_timeout_ms},
          {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},
          {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1'000},
          {GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0},
          {GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostCallsPerConnection},
          {GRPC_ARG_MAX_METADATA_SIZE, kMostMetadataBytes},
          {GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleConnectionMs}};
}

absl::StatusOr<std::unique_ptr<GrpcServer>> StartGrpcServer(const GrpcServerOptions& options) {
  ZF_ASSIGN_OR_RETURN(const Address address, ParseAddress(options.listen));
  ZF_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ServerCredentials> credentials,
                      ServerCredentialsFrom(options.tls, options.observer));
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<Listener> listener,
                      Listener::Open({.address = address,
                                      .most_connections = options.most_connections,
                                      .most_per_address = options.most_per_address,
                                      .answer_timeout_ms = options.answer_timeout_ms,
                                      .turned_away = options.turned_away}));
  QuietGrpcLog();
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  const std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor =
      builder.experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  for (const auto& [name, value] : ServerArguments(options)) builder.AddChannelArgument(name, value);
  builder.SetMaxReceiveMessageSize(options.most_message_bytes);
  for (grpc::Service* service : options.services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return absl::InternalError("a gRPC server cannot be started");
  listener->Start([acceptor](int socket) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = socket;
    acceptor->HandleNewConnection(&connection);
  });
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(server), std::move(listener), options.health_names));
}

}  // namespace zerofleet::services
