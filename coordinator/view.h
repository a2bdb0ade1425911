// A view: the members that are ready, with their ranks, coordinates and shares, in a new generation.
#ifndef ZEROFLEET_COORDINATOR_VIEW_H_
#define ZEROFLEET_COORDINATOR_VIEW_H_

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// If every place is taken, every member ready, no commit of an earlier view to be waited for (outlived_commit.h), and
// no running fleet to be expected back (adoption.h): puts the members in rank order and sends each its Assignment. In a
// recovery, those who had a rank keep it.
//
// The team is parallel.team where that is a number. Where it is auto, a run keeps the team it was first formed with,
// which its newest checkpoint tells, whatever its nodes and its world size are now; a run that begins takes AutoTeam's.
void FormViewIfComplete(Fleet& fleet, double now);

// The next generation, made durable before anything that follows.
void NewGeneration(Fleet& fleet);

// The view that the fleet's members make, which are in rank order.
View ViewOf(const Fleet& fleet);
// The same, of members whose nodes are known by their numbers only, by rank.
View ViewOf(const Fleet& fleet, const std::vector<int>& nodes);
// What all members are told of their view; without what differs between its receivers. In a large view it does not name
// the members, or what all are told would grow with the square of their number.
v1::Assignment AssignmentOf(const Fleet& fleet);
// How to reach some of the others in its view.
void OnPeersWanted(Fleet& fleet, const Member& member, const v1::PeersWanted& wanted);

// Gives the member the lowest rank that is free in a recovery, if it is known yet.
void TakePlace(Fleet& fleet, Member& member);

// A member has built its part of the view. All must have built the same layout and the same schedule of collectives,
// else the run fails, naming the ranks that differ. With the last one, loading begins.
void OnEntered(Fleet& fleet, Member& member, const v1::Entered& entered, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_VIEW_H_
