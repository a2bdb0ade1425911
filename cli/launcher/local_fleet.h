// A coordinator and its workers as children of this process, which communicate over loopback and shared memory only.
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
  int metrics_port = 0;  // the coordinator's port; worker i has metrics_port + 1 + i; 0: no metrics
  std::string run_name = "";
  ProcessCommand command = {};   // how to start a child
  std::string trace_steps = "";  // the workers' --trace-steps; empty: nothing is traced
  bool keeps_logs = true;        // the logs will still exist when a message about the run is read
};

// The number of threads per worker: the machine's cores, shared equally; at least one.
int ThreadsPerWorker(int workers);

// How long the other processes get after the first one has failed, so that the coordinator can report the cause.
inline constexpr double kGraceSeconds = 5;

// How long a coordinator may take until it listens. It gives up by itself on storage that hangs, with an error that
// names the call, and must have the time for that.
double CoordinatorStartSeconds(const v1::Config& config);

class LocalFleet {
 public:
  // Starts all processes, spares included. The coordinator answers when this returns; a worker that fails is detected
  // by Reap. `directory` must outlive the fleet.
  static absl::StatusOr<std::unique_ptr<LocalFleet>> Start(const LocalFleetOptions& options,
                                                           const RunDirectory& directory);

  services::OperatorClient& coordinator() { return *client_; }
  const std::string& address() const { return address_; }  // the coordinator's

  // Makes sure that the worker with this process id is gone, and starts another in its place, with the same number, log
  // and metrics port. NotFound if no worker of this fleet has that id. After any other error nothing was started, and
  // RetryStarts will try again.
  absl::Status ReplaceWorker(int64_t pid, double now);
  // Tries again to start workers that could not be started before, with pauses, for restart.form_timeout_seconds.
  // Returns lines for people.
  std::vector<std::string> RetryStarts(double now);
  // Says why a child's log is kept in memory, for people; empty if there is no such log, or if that was said before.
  std::string TakeLogNote();

  // Replaces workers that ended before the coordinator knew them, and which it therefore cannot report as lost; it does
  // so a moment after their end, and restart.max_per_rank times in all. From then on such workers are given up, and the
  // coordinator decides whether the run goes on without them; so is at once one that ended with an error, which as a
  // rank would have been lost: a spare. Returns lines for people that say which.
  std::vector<std::string> ReplaceUnknownWorkers(double now);

  bool CoordinatorRuns() const;
  // Whether the coordinator was ended by a signal that this process did not send.
  bool CoordinatorWasKilled() const;
  // Starts another coordinator in place of one that has ended, with the same address, state and log. It adopts the
  // workers and continues from what the run has committed.
  absl::Status RestartCoordinator();

  // Collects children that have ended. Returns true once all have.
  bool Reap();
  // Whether a child was killed, or ended with an exit code other than 0 or that of a stop. Does not count workers that
  // are to be started again or are given up.
  bool HasFailure() const;
  // Whether a child ended by a fault of its own: any failure except SIGKILL, which comes from outside.
  bool HasFaultyChild() const;
  void KillAll();
  // Keeps the children's logs from growing without bound; to be called periodically.
  void BoundLogs();

  // Asks the coordinator which child has which rank, for messages.
  void LearnRanks();

  // What went wrong, from the children's exits and the run's events; never OK. A process that was killed comes first,
  // since it ends without a message and everything else follows from its end.
  absl::Status Diagnosis(const RunRecord& record, const absl::Status& watch) const;

 private:
  LocalFleet(const LocalFleetOptions& options, const RunDirectory& directory)
      : options_(options), directory_(directory) {}

  absl::StatusOr<std::unique_ptr<ChildProcess>> LaunchCoordinator(const std::string& listen, const std::string& resume);
  absl::Status StartCoordinator();
  absl::StatusOr<std::unique_ptr<ChildProcess>> StartWorker(int number);
  absl::Status StartAgain(size_t child, double now);
  // Whether `is` holds for any child, except those that are to be started again or are given up.
  bool Any(const std::function<bool(const ChildProcess&)>& is) const;
  absl::Status EarlyEnd(const absl::Status& status);

  const LocalFleetOptions options_;
  const RunDirectory& directory_;
  std::vector<std::unique_ptr<ChildProcess>> children_;  // the coordinator first, then the workers by number
  std::vector<std::string> titles_;  // one per child, for messages; with its rank once that is known
  std::map<int64_t, double> ended_;  // workers that have failed: when that was seen, by process id
  int unknown_replaced_ = 0;
  std::set<size_t> given_up_;            // children (by index) that are no longer replaced
  std::map<size_t, StartRetry> starts_;  // children (by index) that could not be started again yet
  std::string log_note_;                 // the last note that TakeLogNote returned
  std::string address_;
  int64_t newest_step_ = -1;                   // the newest step that was committed before the run; -1: none
  std::unique_ptr<InheritedFile> token_file_;  // contains the token with which children authenticate
  std::unique_ptr<services::OperatorClient> client_;
};

// The status for a child that ended with `exit_code` and said `message`; a process that fails with this status has the
// same exit code.
absl::Status StatusOfExit(int exit_code, const std::string& message);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_LAUNCHER_LOCAL_FLEET_H_
