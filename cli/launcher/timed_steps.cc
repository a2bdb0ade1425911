// See timed_steps.h.
#include "cli/launcher/timed_steps.h"

#include <algorithm>
#include <memory>
#include <random>

#include "base/status.h"
#include "cli/launcher/local_fleet.h"
#include "cli/launcher/preflight.h"
#include "cli/launcher/scrape.h"
#include "cli/report/run_record.h"

namespace zerofleet::cli {

absl::StatusOr<TimedSteps> TimeSteps(const v1::Config& config, const StepsToTime& wanted, StopSignals& signals,
                                     const std::function<absl::Status(int metrics_port)>& while_training) {
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<RunDirectory> run, RunDirectory::Hold(config.checkpoint().dir()));
  int metrics_port = 0;
  if (while_training) {
    ZF_ASSIGN_OR_RETURN(metrics_port, FreePorts(1 + config.parallel().workers()));
  }
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<LocalFleet> fleet, LocalFleet::Start({config, "none", metrics_port}, *run));
  RunRecord record;
  TimedSteps timed;
  double seconds = 0;
  bool enough = false;
  const absl::Status watch = fleet->coordinator().Watch([&](const v1::Event& event) {
    record.Add(event);
    if (event.has_step() && event.step().step() > wanted.warm_up && !enough) {
      timed.steps.push_back(event.step());
      seconds += event.step().seconds();
    }
    enough = static_cast<int64_t>(timed.steps.size()) >= wanted.steps && seconds >= wanted.seconds;
    if (enough || signals.First() != 0) fleet->coordinator().CancelWatch();
  });
  if (!enough) fleet->Reap();
  if (!enough && absl::IsCancelled(watch)) return absl::CancelledError("stopped by a signal");
  if (!enough) return fleet->Diagnosis(record, watch);
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
