// The launcher's loop; see follow_run.h.
#include "cli/launcher/follow_run.h"

#include <signal.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cli/launcher/run_watcher.h"
#include "coordinator/away.h"

namespace zerofleet::cli {
namespace {

constexpr double kPollSeconds = 0.05;
constexpr double kStopCallSeconds = 5;
constexpr double kLogSeconds = 1;   // between two checks of the logs' sizes
constexpr double kEndSeconds = 15;  // from the run's end to the end of all

class Follower {
 public:
  Follower(const FollowOptions& options, RunRecord& record) : options_(options), record_(record) {}

  absl::StatusOr<int> Run() {
    RunWatcher watcher(options_.fleet.coordinator());
    bool all_ended = false;
    while (!(all_ended && watcher.ended())) {
      HandleSignal(options_.signals.Wait(kPollSeconds));
      for (const v1::Event& event : watcher.Take()) Handle(event);
      all_ended = options_.fleet.Reap();
      if (MayRestartCoordinator()) {
        RestartCoordinator(watcher);
        all_ended = false;
      }
      // A stream also breaks if this machine is suspended for a while. So do the workers' streams, but the run goes on.
      if (watcher.ended() && !record_.end && absl::IsUnavailable(watcher.status()) &&
          options_.fleet.CoordinatorRuns()) {
        watcher.Again();
      }
      if (all_ended) watcher.GiveUp();
      BoundLogs();
      ReplaceUnknown();
      if (options_.fleet.HasFailure() || (watcher.ended() && !record_.end)) {
        SetDeadline(kGraceSeconds);
      } else if (record_.end) {
        SetDeadline(kEndSeconds);
      } else {
        deadline_ = 0;  // whatever failed has been replaced
      }
      if (deadline_ > 0 && options_.clock.MonotonicSeconds() > deadline_) options_.fleet.KillAll();
    }
    for (const v1::Event& event : watcher.Take()) Handle(event);
    options_.progress.Close();
    return Outcome(watcher.status());
  }

 private:
  bool MayRestartCoordinator() const {
    return may_restart_ && options_.fleet.CoordinatorWasKilled() && !killed_ && !record_.end && !record_.failure &&
           coordinator_restarts_ < options_.restart.max_per_rank();
  }

  void RestartCoordinator(RunWatcher& watcher) {
    const double now = options_.clock.MonotonicSeconds();
    // A worker that is also gone is found by the others once they have returned to the coordinator.
    deadline_ = now + kGraceSeconds + coordinator::AdoptionSeconds(options_.restart);
    if (!coordinator_start_.Due(now)) return;
    if (!coordinator_start_.waiting()) options_.progress.Note("the coordinator was killed; starting it again");
    const bool first = !coordinator_start_.waiting();
    const absl::Status restarted = options_.fleet.RestartCoordinator();
    if (restarted.ok()) {
      coordinator_start_.Started();
      ++coordinator_restarts_;
      starting_again_ = true;
      return watcher.Again();
    }
    may_restart_ = coordinator_start_.Failed(now, options_.restart.form_timeout_seconds());
    if (first || !may_restart_) {
      options_.progress.Note(absl::StrCat("no coordinator was started: ", restarted.message(),
                                          may_restart_ ? "; trying again" : "; giving up"));
    }
  }

  void Handle(const v1::Event& event) {
    if (event.has_start() && std::exchange(starting_again_, false) && stop_signal_ != 0) TellStop();
    if (!record_.Add(event)) return;
    if (options_.report != nullptr) options_.report->Write(event);
    if (options_.tensorboard != nullptr) options_.tensorboard->Write(event);
    options_.progress.Show(event);
    if (event.has_step()) options_.step_done(event.step().step());
    if (event.has_start() || event.has_recovery()) options_.fleet.LearnRanks();
    if (event.has_lost()) Replace(event.lost());
  }

  // Only while the run goes on: a worker that fails before it has begun ends it.
  void ReplaceUnknown() {
    const bool goes_on = record_.start && !record_.end && !record_.failure;
    if (!goes_on || killed_ || stop_signal_ != 0) return;
    const double now = options_.clock.MonotonicSeconds();
    for (const std::string& line : options_.fleet.ReplaceUnknownWorkers(now)) options_.progress.Note(line);
    for (const std::string& line : options_.fleet.RetryStarts(now)) options_.progress.Note(line);
    if (const std::string note = options_.fleet.TakeLogNote(); !note.empty()) options_.progress.Note(note);
  }

  void Replace(const v1::WorkerLostEvent& lost) {
    if (killed_ || stop_signal_ != 0) return;
    const absl::Status replaced = options_.fleet.ReplaceWorker(lost.pid(), options_.clock.MonotonicSeconds());
    if (!replaced.ok()) options_.progress.Note(absl::StrCat("no worker was started: ", replaced.message()));
  }

  void HandleSignal(int signal) {
    if (signal != SIGINT && signal != SIGTERM && signal != SIGHUP) return;
    if (stop_signal_ != 0) {
      if (signal == SIGHUP) return;  // a closing terminal may send several
      killed_ = true;
      options_.fleet.KillAll();
      return;
    }
    stop_signal_ = signal;
    options_.progress.Note(
        absl::StrCat(SignalName(signal), ": stopping after this step, with a checkpoint; once more kills at once"));
    TellStop();
  }

  // A restarted coordinator is asked to stop only once it has found its fleet: before, it would take the run for one
  // that never began, and end it.
  void TellStop() {
    if (starting_again_ || options_.fleet.CoordinatorWasKilled()) return;
    // An error is ignored: if the coordinator is gone, the children's exits show it.
    options_.fleet.coordinator()
        .Stop(absl::StrCat("the launcher received ", SignalName(stop_signal_)), kStopCallSeconds)
        .IgnoreError();
  }

  void BoundLogs() {
    const double now = options_.clock.MonotonicSeconds();
    if (now < logs_due_) return;
    logs_due_ = now + kLogSeconds;
    options_.fleet.BoundLogs();
  }

  void SetDeadline(double seconds) {
    if (deadline_ == 0) deadline_ = options_.clock.MonotonicSeconds() + seconds;
  }

  absl::StatusOr<int> Outcome(const absl::Status& watch) {
    const int stopped_code = StopExitCode(stop_signal_ == 0 ? SIGINT : stop_signal_);
    if (killed_) {
      options_.progress.Note(
          absl::StrCat("zerofleet: killed by a second ", SignalName(stop_signal_), record_.CheckpointText()));
      return stopped_code;
    }
    // A process that is killed after the run's end has nothing left to do.
    if (record_.end && !options_.fleet.HasFaultyChild()) {
      if (options_.report != nullptr) ZF_RETURN_IF_ERROR(options_.report->status());
      if (options_.tensorboard != nullptr) ZF_RETURN_IF_ERROR(options_.tensorboard->status());
      return record_.end->stopped() ? stopped_code : 0;
    }
    const absl::Status diagnosis = options_.fleet.Diagnosis(record_, watch);
    if (!absl::IsCancelled(diagnosis)) return diagnosis;
    options_.progress.Note(absl::StrCat("zerofleet: ", diagnosis.message()));
    return stopped_code;
  }

  const FollowOptions& options_;
  RunRecord& record_;
  int stop_signal_ = 0;
  bool killed_ = false;
  bool starting_again_ = false;  // a restarted coordinator has not yet reported a start
  int64_t coordinator_restarts_ = 0;
  StartRetry coordinator_start_;
  bool may_restart_ = true;
  double logs_due_ = 0;
  double deadline_ = 0;  // monotonic seconds after which all are killed; 0: none yet
};

}  // namespace

absl::StatusOr<int> FollowRun(const FollowOptions& options, RunRecord& record) {
  return Follower(options, record).Run();
}

}  // namespace zerofleet::cli
