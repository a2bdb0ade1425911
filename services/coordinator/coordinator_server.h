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
  // The process has a supervisor that restarts it. So it stays after the run's end, and a run whose last step is
  // committed counts as ended when the process starts.
  bool supervised = false;
  // The process that started this one is about to watch the run and must learn of its end: if the run ends before that,
  // the events are kept for it.
  bool watched = false;
  Logger* logger = nullptr;             // borrowed; gets every output with its reason, one line each; none: no log
  const Clock* clock = &Clock::Real();  // borrowed
  absl::Duration directory_patience = absl::Seconds(2);        // waiting for another run to leave the directory
  absl::Duration directory_check_interval = absl::Seconds(1);  // between checks for a directory that was removed
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
  // Where to report refused clients, for another port of this process. Reports nothing once the server is gone.
  std::shared_ptr<Refusals> refusals() const { return refusals_; }

  // The run's status, once it has ended and workers and watchers have received what was left for them (waits at most 5
  // seconds, and 20 for a watcher that has not come yet). A supervised server goes on answering: it serves the status,
  // and tells late workers that the run is complete.
  absl::Status Wait();

  // Calls `on_event` on the calling thread for each of the run's events until the run has ended. No event is lost: they
  // wait in memory while `on_event` is slow; ResourceExhausted if too many had to wait. From any thread.
  absl::Status Follow(const std::function<void(const v1::Event&)>& on_event);

  // Whether the gRPC port answers; Unavailable says what does not. OK after the server was shut down. From any thread.
  absl::Status Answers();

  // What the status page shows now. From any thread.
  StatusPicture Picture();

  // Stops the run in an orderly way, as the Stop call does; idempotent. From any thread.
  void Stop(const std::string& reason);

  // Ends Wait with Cancelled, and leaves the run to the next coordinator; to workers it looks as if this process had
  // crashed.
  void Abandon(const std::string& reason);

 private:
  explicit CoordinatorServer(const CoordinatorOptions& options);

  // Lets whoever asked for the status shortly before the run's end ask once more.
  void AwaitTheLastQuestion(absl::Time ended);

  // Runs on a thread of its own. Creates the checkpoint directory `dir` and the state directory again if they are
  // removed during the run, and ends the run if one is replaced, or if another coordinator has taken over the
  // checkpoint directory.
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
  std::shared_ptr<Refusals> refusals_;  // shared, since connections may report after the server's end
  std::unique_ptr<CoordinatorService> service_;
  std::unique_ptr<GrpcServer> server_;
  absl::Notification closing_;
  std::thread directory_watch_;  // last: it uses the others
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_COORDINATOR_COORDINATOR_SERVER_H_
