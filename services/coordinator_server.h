// A whole coordinator: its state file, the checkpoints it may resume from, the loop, and the gRPC server in front.
#ifndef ZEROFLEET_SERVICES_COORDINATOR_SERVER_H_
#define ZEROFLEET_SERVICES_COORDINATOR_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "services/tls.h"
#include "zerofleet/v1/config.pb.h"

namespace prometheus {
class Registry;
}

namespace zerofleet {

class CoordinatorLoop;
class CoordinatorMetrics;
class CoordinatorService;
class GrpcServer;

struct CoordinatorOptions {
  v1::Config config;           // complete and checked
  std::string listen;          // HOST:PORT; port 0 = any free one
  std::string state_dir;       // created when the fleet forms
  std::string resume = "auto"; // auto | none | path of a step directory
  std::string version;
  TlsFiles tls = {};           // none: plaintext
  prometheus::Registry* registry = nullptr;                   // borrowed; none: no metrics
  std::function<void(const std::string&)> log = nullptr;      // every output with its reason, one line each
  const Clock* clock = &Clock::Real();                        // borrowed
};

class CoordinatorServer {
 public:
  // Reads the state and the checkpoints, and starts serving. FailedPrecondition naming the address if it cannot be had;
  // InvalidArgument for a TLS file; DataLoss naming the file for a damaged state or an unusable --resume path.
  static absl::StatusOr<std::unique_ptr<CoordinatorServer>> Start(const CoordinatorOptions& options);
  ~CoordinatorServer();
  CoordinatorServer(const CoordinatorServer&) = delete;
  CoordinatorServer& operator=(const CoordinatorServer&) = delete;

  int port() const;

  // The run's status, when it has ended and workers and watchers have had what was left for them (at most 5 seconds).
  absl::Status Wait();

  // As the Stop call: an orderly stop, idempotent. From any thread.
  void Stop(const std::string& reason);

 private:
  CoordinatorServer();

  std::unique_ptr<CoordinatorMetrics> metrics_;
  std::unique_ptr<CoordinatorLoop> loop_;
  std::unique_ptr<CoordinatorService> service_;
  std::unique_ptr<GrpcServer> server_;
};

}  // namespace zerofleet

#endif  // ZEROFLEET_SERVICES_COORDINATOR_SERVER_H_
