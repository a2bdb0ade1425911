// Ranks whose own part of a step takes much longer than the others', so that all ranks wait for them in every step.
#ifndef ZEROFLEET_COORDINATOR_STRAGGLER_H_
#define ZEROFLEET_COORDINATOR_STRAGGLER_H_

#include <optional>
#include <string>
#include <vector>

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// A rank's reported pace and the median of all ranks', in the phase of a step in which the rank is furthest behind.
struct Lag {
  int rank = -1;
  std::string phase = {};    // as the workers' metrics name it
  double seconds = 0;        // this rank's
  double fleet_seconds = 0;  // the ranks' lower median
  double ratio() const { return fleet_seconds > 0 ? seconds / fleet_seconds : 1; }
};

// The lag of each rank that has reported enough steps, ordered by rank; empty if fewer than two have.
std::vector<Lag> LagsOf(const Fleet& fleet);

// Publishes a notice for each rank that has become a straggler, or no longer is one. Checks at most once per heartbeat
// timeout, and only after enough new steps, since a median over steps does not change faster.
void CheckStragglers(Fleet& fleet, double now);

// "rank 3 (host b, pid 12) holds up every step: backward takes 0.31 s, 1.7 times the others'"; none if no rank does.
std::optional<std::string> StragglerText(const Fleet& fleet);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_STRAGGLER_H_
