// A whole coordinator: its state file, the checkpoints it may resume from, the loop, and the gRPC server in front.
#ifndef ZEROFLEET_SERVICES_COORDINATOR_COORDINATOR_SERVER_H_
#define ZEROFLEET_SERVICES_COORDINATOR_COORDINATOR_SERVER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/directory_lock.h"
#include "services/common/logging.h"
#include "services/metrics/status_page.h"
#include "services/security/access.h"
#include "services/security/tls.h"
#include "zerofleet/v1/config.pb.h"
#include "zerofleet/v1/events.pb.h"

namespace prometheus {
class Registry;
}

namespace zerofleet::services {

class CheckpointStore;
class CoordinatorLoop;
class CoordinatorMetrics;
class CoordinatorService;
class GrpcServer;
class Refusals;

struct CoordinatorOptions {
  v1::Config config;            // complete and checked
  std::string listen;           // HOST:PORT; port 0 = any free one
  std::string state_dir;        // created, and held while the coordinator lives
  std::string resume = "auto";  // auto | none | path of a step directory
  std::string version, revision;
  std::string run;                           // the run's name, for metrics
  TlsFiles tls = {};                         // none: plaintext
  AccessOptions access = {};                 // who may join, watch and stop
  prometheus::Registry* registry = nullptr;  // borrowed; none: no metrics
  // The process has a supervisor that starts it again: it stays after the run's end, and a run whose last step is
  // committed has ended when it starts.
  bool supervised = false;
  // Whoever started this process is about to watch the run, and must hear of its end: one that ends before is kept for
  // it.
  bool watched = false;
  Logger* logger = nullptr;             // borrowed; every output with its reason, one line each; none: no log
  const Clock* clock = &Clock::Real();  // borrowed
  absl::Duration directory_patience = absl::Seconds(2);        // for another run that is about to leave the directory
  absl::Duration directory_check_interval = absl::Seconds(1);  // for a checkpoint directory that was removed
};

class CoordinatorServer {
 public:
  // Takes the state and the checkpoint directory for this run, reads the state and the checkpoints, and starts serving.
  // FailedPrecondition naming the directory or the address if another process has it;
  // InvalidArgument for a TLS file; DataLoss naming the file for a damaged state or an unusable --resume path.
  static absl::StatusOr<std::unique_ptr<CoordinatorServer>> Start(const CoordinatorOptions& options);
  ~CoordinatorServer();
  CoordinatorServer(const CoordinatorServer&) = delete;
  CoordinatorServer& operator=(const CoordinatorServer&) = delete;

  int port() const;
  // What tells of clients that are turned away; for another port of this process. Silent once the server is gone.
  std::shared_ptr<Refusals> refusals() const { return refusals_; }

  // The run's status, when it has ended and workers and watchers have received what was left for them (at most 5
  // seconds, and 20 for a watcher that is yet to come). A supervised server goes on answering: status, and to workers
  // that come late that the run is complete.
  absl::Status Wait();

  // Calls `on_event` for each of the run's events on the calling thread until the run has ended, from any thread and
  // losing none: events wait in memory while `on_event` is slow. ResourceExhausted if more than fit had to wait.
  absl::Status Follow(const std::function<void(const v1::Event&)>& on_event);

  // Whether its gRPC port answers; Unavailable says what does not. OK after the run. From any thread.
  absl::Status Answers();

  // What the status page shows now. From any thread.
  StatusPicture Picture();

  // As the Stop call: an orderly stop, idempotent. From any thread.
  void Stop(const std::string& reason);

  // Ends Wait with Cancelled, and leaves the run to the next coordinator: to workers as if this process had crashed.
  void Abandon(const std::string& reason);

 private:
  explicit CoordinatorServer(const CoordinatorOptions& options);

  // On a thread of its own: makes the checkpoint directory `dir`, and the state directory, anew if it is removed under
  // the run, and ends the run if it is replaced, or if another coordinator has taken it over.
  void WatchDirectory(const std::string& dir, absl::Duration interval);

  const bool supervised_, watched_;
  const std::string run_;
  const Clock& clock_;
  RunHistory history_;
  std::atomic<bool> abandoned_ = false;
  std::unique_ptr<DirectoryLock> state_lock_;
  std::unique_ptr<CheckpointStore> store_;
  std::unique_ptr<CoordinatorMetrics> metrics_;
  std::unique_ptr<CoordinatorLoop> loop_;
  std::shared_ptr<Refusals> refusals_;  // what connections tell may come after the server's end
  std::unique_ptr<CoordinatorService> service_;
  std::unique_ptr<GrpcServer> server_;
  absl::Notification closing_;
  std::thread directory_watch_;  // last: it uses the others
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_COORDINATOR_COORDINATOR_SERVER_H_
