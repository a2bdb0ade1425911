// Ranks whose own part of a step takes much longer than the others': in every step all wait for them.
#ifndef ZEROFLEET_COORDINATOR_STRAGGLER_H_
#define ZEROFLEET_COORDINATOR_STRAGGLER_H_

#include <optional>
#include <string>
#include <vector>

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// What a rank says of its pace beside the median of all ranks, of the phase in which it is furthest behind.
struct Lag {
  int rank = -1;
  std::string phase = {};    // as the workers' metrics name it
  double seconds = 0;        // of this rank
  double fleet_seconds = 0;  // the lower median of the ranks
  double ratio() const { return fleet_seconds > 0 ? seconds / fleet_seconds : 1; }
};

// The lag of each rank that has reported enough steps, ordered by rank; empty if fewer than two have.
std::vector<Lag> LagsOf(const Fleet& fleet);

// Names ranks that have become stragglers, and those that no longer are, by a notice each. Looks once per heartbeat
// timeout: a median over steps doesn't change faster.
void CheckStragglers(Fleet& fleet, double now);

// "rank 3 (host b, pid 12) holds up every step: backward takes 0.31 s, 1.7 times the others'"; none: nobody does.
std::optional<std::string> StragglerText(const Fleet& fleet);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_STRAGGLER_H_
