// A coordinator and its workers as children of this process, on loopback and shared memory only.
#ifndef ZEROFLEET_CLI_LAUNCHER_LOCAL_FLEET_H_
#define ZEROFLEET_CLI_LAUNCHER_LOCAL_FLEET_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/launcher/child_process.h"
#include "cli/launcher/preflight.h"
#include "cli/launcher/start_retry.h"
#include "cli/report/run_record.h"
#include "services/session/operator_client.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

struct LocalFleetOptions {
  v1::Config config;  // complete and checked
  std::string resume = "auto";
  int metrics_port = 0;  // the coordinator's; worker i has metrics_port + 1 + i; 0 = no metrics
  std::string run_name = "";
  ProcessCommand command = {};   // of the children
  std::string trace_steps = "";  // worker's --trace-steps; empty: nothing is traced
  bool keeps_logs = true;        // the run's directory is there when a message about the run is read
};

// The machine's cores, shared out among the workers; at least one.
int ThreadsPerWorker(int workers);

// From the first failure of a process to the end of all: the coordinator names the cause meanwhile.
inline constexpr double kGraceSeconds = 5;

// How long a coordinator may take until it listens. It gives up storage that hangs by itself, and says which call: that
// must not be cut short.
double CoordinatorStartSeconds(const v1::Config& config);

class LocalFleet {
 public:
  // Starts all processes, spares included; the coordinator answers when this returns. A child that fails is detected by
  // Reap. `directory` outlives the fleet.
  static absl::StatusOr<std::unique_ptr<LocalFleet>> Start(const LocalFleetOptions& options,
                                                           const RunDirectory& directory);

  services::OperatorClient& coordinator() { return *client_; }
  const std::string& address() const { return address_; }  // the coordinator's

  // Makes sure that the worker with this process id is gone, and starts another in its place, with the same number, log
  // and metrics port. NotFound if no worker of this fleet has that id. After any other error nothing was started, and
  // RetryStarts tries again.
  absl::Status ReplaceWorker(int64_t pid, double now);
  // Starts what could not be started before, after a pause and for restart.form_timeout_seconds. Lines for a person.
  std::vector<std::string> RetryStarts(double now);
  // Why a child's log is in memory alone, for a person; once, until it is for another reason.
  std::string TakeLogNote();

  // Replaces the workers that have ended before the coordinator knew them, and so are not lost to it, a while after
  // their end; as often as restart.max_per_rank allows, and then no more: whether the run goes on without them is for
  // the coordinator to say. The lines say which, for a person.
  std::vector<std::string> ReplaceUnknownWorkers(double now);

  bool CoordinatorRuns() const;
  // Whether a signal ended the coordinator, not one of ours.
  bool CoordinatorWasKilled() const;
  // Starts another coordinator in the place of one that has ended: same address, state and log. It adopts the workers,
  // and goes on from what the run has committed.
  absl::Status RestartCoordinator();

  // Collects children that have ended. True once all have.
  bool Reap();
  // Whether one was killed, or has ended with another exit code than 0 or that of a stop.
  bool HasFailure() const;
  // Whether one has ended by a fault of its own: all of these but SIGKILL, which comes from outside.
  bool HasFaultyChild() const;
  void KillAll();
  // Keeps the children's logs from growing without bound; to be called now and then.
  void BoundLogs();

  // Learns from the coordinator which child has which rank, for messages.
  void LearnRanks();

  // What went wrong, from the children's exits and the run's events: never OK. A process killed without a message comes
  // first, since everything else follows from it.
  absl::Status Diagnosis(const RunRecord& record, const absl::Status& watch) const;

 private:
  LocalFleet(const LocalFleetOptions& options, const RunDirectory& directory)
      : options_(options), directory_(directory) {}

  absl::StatusOr<std::unique_ptr<ChildProcess>> LaunchCoordinator(const std::string& listen, const std::string& resume);
  absl::Status StartCoordinator();
  absl::StatusOr<std::unique_ptr<ChildProcess>> StartWorker(int number);
  absl::Status StartAgain(size_t child, double now);
  // Whether `is` holds for any child that is not about to be started again, and not given up.
  bool Any(const std::function<bool(const ChildProcess&)>& is) const;
  absl::Status EarlyEnd(const absl::Status& status);

  const LocalFleetOptions options_;
  const RunDirectory& directory_;
  std::vector<std::unique_ptr<ChildProcess>> children_;  // the coordinator first, then the workers by number
  std::vector<std::string> titles_;                      // of each, with its rank once known
  std::map<int64_t, double> ended_;                      // workers that have failed, by process id: when that was seen
  int unknown_replaced_ = 0;
  std::set<size_t> given_up_;            // by child: nobody takes their places; the coordinator knows who is missing
  std::map<size_t, StartRetry> starts_;  // by child: those that have ended, and could not be started again yet
  std::string log_note_;                 // that was told last
  std::string address_;
  int64_t newest_step_ = -1;                   // committed before the run
  std::unique_ptr<InheritedFile> token_file_;  // with the token that the children authenticate with
  std::unique_ptr<services::OperatorClient> client_;
};

// `status`'s counterpart for a process that ended with `exit_code`: what it said, under the code that exits the same.
absl::Status StatusOfExit(int exit_code, const std::string& message);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_LOCAL_FLEET_H_
