// A worker's status over gRPC; see worker_service.h.
#include "services/worker_service.h"

#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "services/grpc_server.h"
#include "zerofleet/v1/worker.grpc.pb.h"

namespace zerofleet::services {

struct WorkerService::Impl final : v1::Worker::Service {
  std::function<v1::GetWorkerStatusResponse()> status;
  std::unique_ptr<GrpcServer> server;

  grpc::Status GetWorkerStatus(grpc::ServerContext*, const v1::GetWorkerStatusRequest*,
                               v1::GetWorkerStatusResponse* response) override {
    *response = status();
    return grpc::Status::OK;
  }
};

WorkerService::WorkerService(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
WorkerService::~WorkerService() { impl_->server.reset(); }  // before the service it serves

absl::StatusOr<std::unique_ptr<WorkerService>> WorkerService::Start(WorkerServiceOptions options) {
  ZF_CHECK(options.status != nullptr);
  auto impl = std::make_unique<Impl>();
  impl->status = std::move(options.status);
  // A worker that only verifies the coordinator has nothing to serve TLS with.
  const TlsFiles tls = options.tls.certificate.empty() ? TlsFiles{} : options.tls;
  ZF_ASSIGN_OR_RETURN(impl->server, StartGrpcServer({.listen = options.listen,
                                                     .services = {impl.get()},
                                                     .health_names = {v1::Worker::service_full_name()},
                                                     .tls = tls}));
  return std::unique_ptr<WorkerService>(new WorkerService(std::move(impl)));
}

int WorkerService::port() const { return impl_->server->port(); }
void WorkerService::SetServing(bool serving) { impl_->server->SetServing(serving); }

}  // namespace zerofleet::services
