// The time of a step from short runs of the same fleet on this machine, on fewer layers and micro-batches where the
// whole would take long.
//
// A step's time is linear in the number of layers at a given number of micro-batches, and the other way round, so the
// runs at two of each tell it: docs/planning.md has the equations. Workers that share cores and memory do so in the
// runs too, which rates measured one at a time miss.
#ifndef ZEROFLEET_CLI_PLANNER_PROBE_H_
#define ZEROFLEET_CLI_PLANNER_PROBE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/launcher/stop_signals.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

// A run to time, and what its step counts for: the step is the sum over all points.
struct ProbePoint {
  int64_t layers = 0, micro_batches = 0;
  double weight = 0;
  double seconds = 0;  // measured
};

struct Probe {
  double seconds = 0;          // of a step
  double slowest_seconds = 0;  // of a step as the slowest round has it: what the machine itself varies by
  std::vector<ProbePoint> points;
};

// Up to four: at one and at about half of the layers, at two and at four micro-batches; a model or a step that is not
// larger than that is timed as it is.
std::vector<ProbePoint> ProbePoints(const v1::Config& config);

// The step itself, as one point.
std::vector<ProbePoint> WholeStep(const v1::Config& config);

struct ProbeTask {
  v1::Config config;
  std::vector<ProbePoint> points;
};

// About how long ProbeSteps takes for this task, where a step of its configuration takes `step_seconds`.
double ProbeCost(const ProbeTask& task, double step_seconds);

// Trains on random tokens in temporary directories, some seconds each, one task after the other in each of a few
// rounds. The errors of a run; Cancelled by a signal.
absl::StatusOr<std::vector<Probe>> ProbeSteps(const std::vector<ProbeTask>& tasks, StopSignals& signals);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_PROBE_H_
