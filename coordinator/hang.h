// Which ranks keep a collective waiting, read from what each rank says it has entered and left.
#ifndef ZEROFLEET_COORDINATOR_HANG_H_
#define ZEROFLEET_COORDINATOR_HANG_H_

#include <optional>
#include <string>
#include <vector>

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// A collective that some ranks are in and others have not entered.
struct Wait {
  std::string group, operation, unit;
  uint64_t sequence = 0;
  std::vector<int> waiting, missing;  // ranks, ascending
  double since = 0;                   // when the last of the waiting ranks showed progress
};

// The furthest collective that a rank waits in; none if no rank waits for another. With tensor groups a missing rank
// may itself wait in another group; the result is then the wait for ranks that wait for nobody.
std::optional<Wait> FindWait(const Fleet& fleet);

// "rank 1 has not arrived at reduce_scatter of block3 (group data, sequence 57); ranks 0 and 2 wait in it"
std::string Describe(const Wait& wait);

// How long the others may wait for a rank that is alive, in seconds.
double HangLimit(const Fleet& fleet);
// Whether a save is under way and `rank` has not reported its shard.
bool IsSaving(const Fleet& fleet, int rank);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_HANG_H_
