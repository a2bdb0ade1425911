// Predicts the time of a step from short runs of the same fleet on this machine, with fewer layers and micro-batches
// where the whole step would take long.
//
// At a given number of micro-batches a step's time is linear in the number of layers, and the other way round, so runs
// at two values of each determine it: docs/planning.md has the equations. Workers that share cores and memory share
// them in these runs too, an effect that rates measured one at a time miss.
#ifndef ZEROFLEET_CLI_PLANNER_PROBE_H_
#define ZEROFLEET_CLI_PLANNER_PROBE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/launcher/stop_signals.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::cli {

// A run to time, and its weight: the predicted step time is the weighted sum over all points.
struct ProbePoint {
  int64_t layers = 0, micro_batches = 0;
  double weight = 0;
  double seconds = 0;  // measured
};

struct Probe {
  double seconds = 0;          // the predicted time of a step
  double slowest_seconds = 0;  // the same from the slowest round: shows how much the machine itself varies
  std::vector<ProbePoint> points;
};

// Up to four points: one layer and about half of the layers, each with two and with four micro-batches; a model or a
// step that is no larger than that is timed as it is, and so is one of which model.freeze names tensors.
std::vector<ProbePoint> ProbePoints(const v1::Config& config);

// The step itself, as one point.
std::vector<ProbePoint> WholeStep(const v1::Config& config);

struct ProbeTask {
  v1::Config config;
  std::vector<ProbePoint> points;
};

// About how long ProbeSteps takes for this task, where a step of its configuration takes `step_seconds`.
double ProbeCost(const ProbeTask& task, double step_seconds);

// Trains on random tokens in temporary directories, for some seconds each: a few rounds, each of which runs all tasks
// in turn. Errors are those of a run; Cancelled by a signal.
absl::StatusOr<std::vector<Probe>> ProbeSteps(const std::vector<ProbeTask>& tasks, StopSignals& signals);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_PROBE_H_
