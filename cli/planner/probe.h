// The time of a step from short runs of the same fleet on this machine, on fewer layers and micro-batches.
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
  double seconds = 0;  // of a step
  std::vector<ProbePoint> points;
};

// Up to four: at one and at about half of the layers, at two and at four micro-batches; a model or a step that is not
// larger than that is timed as it is.
std::vector<ProbePoint> ProbePoints(const v1::Config& config);

// Trains on random tokens in a temporary directory, some seconds each. The errors of a run; Cancelled by a signal.
absl::StatusOr<Probe> ProbeStep(const v1::Config& config, StopSignals& signals);

}  // namespace zerofleet::cli

#endif  // ZEROFLEET_CLI_PLANNER_PROBE_H_
