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
  TlsFiles tls = {};  // serves TLS if they include a certificate
  // What other workers may read and write; null: they are refused. They must show `token`, unless it is empty, and
  // under TLS a worker's certificate.
  std::shared_ptr<trainer::SnapshotStore> snapshots = nullptr;
  std::string token = "";
  std::shared_ptr<Refusals> refusals = nullptr;  // gets the refused clients; null: nobody does
};

class WorkerService {
 public:
  static absl::StatusOr<std::unique_ptr<WorkerService>> Start(WorkerServiceOptions options);
  ~WorkerService();

  int port() const;
  void SetServing(bool serving);  // sets what health checks answer
  absl::Status Answers();         // Unavailable if its port answers nothing; see GrpcServer

 private:
  struct Impl;
  explicit WorkerService(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_SESSION_WORKER_SERVICE_H_
