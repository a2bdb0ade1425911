// See timed_steps.h.
#include "cli/launcher/timed_steps.h"

#include <algorithm>
#include <memory>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/status.h"
#include "cli/launcher/local_fleet.h"
#include "cli/launcher/preflight.h"
#include "cli/launcher/run_watcher.h"
#include "cli/launcher/scrape.h"
#include "cli/report/run_record.h"

namespace zerofleet::cli {
namespace {

constexpr absl::Duration kEventPoll = absl::Milliseconds(10);

// Nobody starts another worker in place of a lost one, and steps around a recovery are none to time. A step takes as
// long whatever the weights.
v1::Config WithoutRecovery(v1::Config config) {
  config.clear_init_from();
  config.mutable_restart()->set_max_per_rank(0);
  config.mutable_restart()->set_spares(0);
  config.mutable_restart()->set_min_workers(0);
  return config;
}

}  // namespace

absl::StatusOr<TimedSteps> TimeSteps(const v1::Config& config, const StepsToTime& wanted, StopSignals& signals,
                                     const std::function<absl::Status(int metrics_port)>& while_training) {
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<RunDirectory> run, RunDirectory::Hold(config.checkpoint().dir()));
  int metrics_port = 0;
  if (while_training) {
    ZF_ASSIGN_OR_RETURN(metrics_port, FreePorts(1 + config.parallel().workers()));
  }
  ZF_ASSIGN_OR_RETURN(
      const std::unique_ptr<LocalFleet> fleet,
      LocalFleet::Start(
          {.config = WithoutRecovery(config), .resume = "none", .metrics_port = metrics_port, .keeps_logs = false},
          *run));
  RunRecord record;
  TimedSteps timed;
  double seconds = 0;
  bool enough = false;
  RunWatcher watcher(fleet->coordinator());
  bool ended = false;
  double deadline = 0;
  while (!enough && !ended && signals.First() == 0) {
    absl::SleepFor(kEventPoll);
    ended = watcher.ended();  // asked before the events are taken: none can follow
    for (const v1::Event& event : watcher.Take()) {
      record.Add(event);
      if (event.has_step() && event.step().step() == wanted.warm_up && wanted.warmed_up) {
        ZF_RETURN_IF_ERROR(wanted.warmed_up());
      }
      if (!event.has_step() || event.step().step() <= wanted.warm_up || enough) continue;
      timed.steps.push_back(event.step());
      seconds += event.step().seconds();
      enough = static_cast<int64_t>(timed.steps.size()) >= wanted.steps && seconds >= wanted.seconds;
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
  if (while_training) ZF_RETURN_IF_ERROR(while_training(metrics_port));
  fleet->KillAll();
  timed.start = *record.start;
  std::sort(timed.steps.begin(), timed.steps.end(),
            [](const auto& a, const auto& b) { return a.seconds() < b.seconds(); });
  return timed;
}

std::string RandomTokens(int64_t count, int64_t vocab) {
  std::mt19937_64 random(1);
  std::string data;
  for (int64_t i = 0; i < count; ++i) {
    const auto token = static_cast<uint32_t>(random() % static_cast<uint64_t>(vocab));
    for (int byte = 0; byte < 4; ++byte) data.push_back(static_cast<char>(token >> 8 * byte));
  }
  return data;
}

}  // namespace zerofleet::cli
