// The worker's gRPC service: what this rank is doing, for operators; it serves health and reflection too.
#ifndef ZEROFLEET_SERVICES_WORKER_SERVICE_H_
#define ZEROFLEET_SERVICES_WORKER_SERVICE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "services/tls.h"
#include "zerofleet/v1/worker.pb.h"

namespace zerofleet::services {

struct WorkerServiceOptions {
  std::string listen = "127.0.0.1:0";
  // Called for each request, from the server's threads; quick, thread-safe, alive as long as the service.
  std::function<v1::GetWorkerStatusResponse()> status;
  TlsFiles tls = {};  // served under TLS if there is a certificate among them
};

class WorkerService {
 public:
  static absl::StatusOr<std::unique_ptr<WorkerService>> Start(WorkerServiceOptions options);
  ~WorkerService();

  int port() const;
  void SetServing(bool serving);  // what health checks answer

 private:
  struct Impl;
  explicit WorkerService(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_WORKER_SERVICE_H_
