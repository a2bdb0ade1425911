// Taking over a fleet that kept running while its coordinator was gone, and handling streams that break.
//
// A worker whose stream breaks opens another, and its Hello says what it was doing (Rejoin). A coordinator that was
// restarted takes the view from the first rank of the persisted generation that comes back, and the others must
// describe the same view; it requests nothing from them. Once all ranks are back, the fleet is in training, which it
// never interrupted. Ranks that stay away are lost (recovery.h). A coordinator that was not restarted takes a broken
// stream for a loss at once, since that is the first sign that a process has ended. A process whose new stream arrives
// before the news that the old one has ended continues; any other that comes back joins the next view.
#ifndef ZEROFLEET_COORDINATOR_ADOPTION_H_
#define ZEROFLEET_COORDINATOR_ADOPTION_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// FailedPrecondition: `who` is in a later generation than this coordinator knows.
absl::Status OlderThanTheFleet(const Fleet& fleet, const std::string& who, uint64_t generation);

// Handles a session's first message. True if the worker is back in its place, or was refused: its generation is one
// that the fleet has left behind, its view is not the one being adopted, or it is a copy of a process that is
// connected. False: it joins as any worker does (OnHello).
bool OnRejoin(Fleet& fleet, MemberId id, const v1::Hello& hello, double now);

// From here on ranks of the view may be away, and come back as they would to a restarted coordinator (isolation.h).
void BeginAwaiting(Fleet& fleet);

// Gives up the ranks that have not come back in time.
void CheckAdoption(Fleet& fleet, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_ADOPTION_H_
