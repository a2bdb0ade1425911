// Taking over a fleet that went on while its coordinator was gone, and streams that break.
//
// A worker whose stream breaks opens another, and its Hello says what it was doing (Rejoin). To a coordinator that was
// started again, the first rank of the persisted generation tells the view, and the others must tell the same; nothing
// is asked of any of them. With all ranks back the fleet trains, as it has done all the time. Ranks that stay away are
// lost (recovery.h). A coordinator that was there all the time takes a broken stream for a loss at once, since that is
// how the end of a process shows first; a process whose new stream is faster than the news of the old one's end goes
// on, any other that comes back meets the others in the next view.
#ifndef ZEROFLEET_COORDINATOR_ADOPTION_H_
#define ZEROFLEET_COORDINATOR_ADOPTION_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// FailedPrecondition: `who` is of a later generation than this coordinator knows of.
absl::Status OlderThanTheFleet(const Fleet& fleet, const std::string& who, uint64_t generation);

// A session's first message. True if that settles it: it is back in its place, or refused, being of a generation that
// the fleet has left behind, of another view than the one that is adopted, or a copy of a process that is there. False:
// it joins as any worker does (OnHello).
bool OnRejoin(Fleet& fleet, MemberId id, const v1::Hello& hello, double now);

// The ranks of the view may be away from here on, and come back as to a coordinator that was started again
// (isolation.h).
void BeginAwaiting(Fleet& fleet);

// Gives up the ranks that have not come back in time.
void CheckAdoption(Fleet& fleet, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_ADOPTION_H_
