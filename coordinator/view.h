// Views: the ready members, with their ranks, coordinates and shares, in a new generation.
#ifndef ZEROFLEET_COORDINATOR_VIEW_H_
#define ZEROFLEET_COORDINATOR_VIEW_H_

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// Forms the view if every place is taken, every member is ready, no earlier view's commit is awaited
// (outlived_commit.h) and no running fleet is expected back (adoption.h): puts the members in rank order and sends each
// its Assignment. In a recovery, members that had a rank keep it.
//
// The team is parallel.team if that is a number. If it is auto, a run keeps the team with which it was first formed,
// which is in its newest checkpoint, whatever its nodes and world size are now; a new run takes AutoTeam's.
void FormViewIfComplete(Fleet& fleet, double now);

// Begins the next generation, which is made durable before any output that follows.
void NewGeneration(Fleet& fleet);

// The view of the fleet's members, which must be in rank order.
View ViewOf(const Fleet& fleet);
// The same if only the members' node numbers are known, by rank.
View ViewOf(const Fleet& fleet, const std::vector<int>& nodes);
// The part of the Assignment that is the same for all receivers. In a large view it does not name the members, since
// the total size would grow with the square of their number.
v1::Assignment AssignmentOf(const Fleet& fleet);
// Answers with how to reach the requested members of the view.
void OnPeersWanted(Fleet& fleet, const Member& member, const v1::PeersWanted& wanted);

// Gives the member a free rank in a recovery: the one that it had before, if that is free, else the lowest. Does
// nothing if free ranks are not known yet.
void TakePlace(Fleet& fleet, Member& member);

// A member has built its part of the view. All must have built the same layout and the same schedule of collectives,
// else the run fails, naming the ranks that differ. With the last one, loading begins.
void OnEntered(Fleet& fleet, Member& member, const v1::Entered& entered, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_VIEW_H_
