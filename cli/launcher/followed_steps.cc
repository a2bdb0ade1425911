// See followed_steps.h.
#include "cli/launcher/followed_steps.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/status.h"
#include "cli/launcher/launch_guard.h"
#include "cli/launcher/local_fleet.h"
#include "cli/launcher/preflight.h"
#include "cli/launcher/run_watcher.h"
#include "cli/report/run_record.h"

namespace zerofleet::cli {
namespace {

constexpr absl::Duration kEventPoll = absl::Milliseconds(10);

// Switches recoveries off: steps around one would not be worth following.
v1::Config WithoutRecovery(v1::Config config) {
  config.mutable_restart()->set_max_per_rank(0);
  config.mutable_restart()->set_spares(0);
  config.mutable_restart()->set_min_workers(0);
  return config;
}

}  // namespace

absl::Status FollowSteps(const StepsToFollow& steps, StopSignals& signals,
                         const std::function<bool(const v1::Event&)>& goes_on,
                         const std::function<absl::Status()>& at_the_end) {
  ZF_RETURN_IF_ERROR(MakeRoomForFleet(steps.config.parallel().workers()));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<RunDirectory> run, RunDirectory::Hold(steps.config.checkpoint().dir()));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<LocalFleet> fleet,
                      LocalFleet::Start({.config = WithoutRecovery(steps.config),
                                         .resume = steps.resume,
                                         .metrics_port = steps.metrics_port,
                                         .keeps_logs = false},
                                        *run));
  RunRecord record;
  RunWatcher watcher(fleet->coordinator());
  bool enough = false, ended = false;
  double deadline = 0;
  while (!enough && !ended && signals.First() == 0) {
    absl::SleepFor(kEventPoll);
    ended = watcher.ended();  // read before the events are taken, so that none can be missed
    for (const v1::Event& event : watcher.Take()) {
      record.Add(event);
      enough = enough || !goes_on(event);
    }
    fleet->Reap();
    const double now = Clock::Real().MonotonicSeconds();
    if (deadline == 0 && fleet->HasFailure()) deadline = now + kGraceSeconds;
    if (deadline > 0 && now > deadline) fleet->KillAll();
  }
  if (!enough && signals.First() != 0) {
    return signals.Stopped(absl::CancelledError(absl::StrCat("stopped by ", SignalName(signals.First()))));
  }
  if (!enough) {
    fleet->Reap();
    return fleet->Diagnosis(record, watcher.status());
  }
  if (at_the_end) ZF_RETURN_IF_ERROR(at_the_end());
  fleet->KillAll();
  return absl::OkStatus();
}

}  // namespace zerofleet::cli
