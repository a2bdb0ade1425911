// A whole fleet under one seed: coordinators, workers, network, disk, the launcher that replaces workers and is started
// again when a run has ended early, operators, and faults. The coordinator and the workers' sessions are the real ones.
#ifndef ZEROFLEET_TESTS_SIM_FLEET_SIMULATION_H_
#define ZEROFLEET_TESTS_SIM_FLEET_SIMULATION_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace zerofleet::sim {

struct SimulationResult {
  std::string violation;           // empty: every property held
  std::vector<absl::Status> ends;  // how each run ended, except those whose coordinator was killed; the last is OK
  int64_t recoveries = 0;
  int64_t restored = 0;  // recoveries from memory
  int64_t adopted = 0;   // fleets that a coordinator took over, complete
  int64_t fenced = 0;    // coordinators whose run ended because a newer one had their directory
  int64_t failed_saves = 0;
  int64_t rollbacks = 0;
  int64_t shrunk = 0, grown = 0;  // how often the fleet went on with fewer ranks, and took in others again
  double seconds = 0;             // simulated time
};

// `trace`: where to write every event and output; may be null.
SimulationResult Simulate(uint64_t seed, std::ostream* trace);

}  // namespace zerofleet::sim

#endif  // ZEROFLEET_TESTS_SIM_FLEET_SIMULATION_H_
