// The worker's gRPC service: its snapshots, for other workers; health and reflection.
#ifndef ZEROFLEET_SERVICES_SESSION_WORKER_SERVICE_H_
#define ZEROFLEET_SERVICES_SESSION_WORKER_SERVICE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/common/refusals.h"
#include "services/security/tls.h"
#include "worker/trainer/snapshot_store.h"
#include "zerofleet/v1/worker.pb.h"

namespace zerofleet::services {

struct WorkerServiceOptions {
  std::string listen = "127.0.0.1:0";
  TlsFiles tls = {};  // served under TLS if there is a certificate among them
  // What other workers may read and write; outlives the service. They show `token`, where there is one, and a worker's
  // certificate under TLS. None: refused.
  std::shared_ptr<trainer::SnapshotStore> snapshots = nullptr;
  std::string token = "";
  std::shared_ptr<Refusals> refusals = nullptr;  // is told of clients that are turned away
};

class WorkerService {
 public:
  static absl::StatusOr<std::unique_ptr<WorkerService>> Start(WorkerServiceOptions options);
  ~WorkerService();

  int port() const;
  void SetServing(bool serving);  // what health checks answer
  absl::Status Answers();         // Unavailable if it answers nothing; see GrpcServer

 private:
  struct Impl;
  explicit WorkerService(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_SESSION_WORKER_SERVICE_H_
