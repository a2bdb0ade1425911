// If nobody is heard, the coordinator assumes that it is cut off itself, not that all workers are lost at once.
//
// It then behaves as after its own crash, and nothing counts against any rank. Sessions, those of spares too, are
// broken off so that workers reconnect. The ranks of a view are away (away.h) and train on; they come back as to a
// restarted coordinator (adoption.h), and ranks that stay away are lost. If no view trains, the members join again, and
// get the ranks that they had in the last one.
#ifndef ZEROFLEET_COORDINATOR_ISOLATION_H_
#define ZEROFLEET_COORDINATOR_ISOLATION_H_

#include <string>

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// How long this member may be silent, in seconds. Before its first heartbeat it may be busy loading or opening data.
double SilenceLimit(const Fleet& fleet, const Member& member);

// Who may be to blame when somebody is silent.
enum class Silence {
  kOfSome,  // others are heard, so the silent ones are to blame
  kOfAll,   // nobody is heard, so this coordinator is cut off
  kUnclear  // nobody was heard lately, but not everybody's limit has passed
};
Silence SilenceNow(const Fleet& fleet, double now);

// Whether any message, from anybody, has arrived lately.
bool HearsAnybody(const Fleet& fleet, double now);

// Gives up all sessions except those of spares that are heard.
void BecomeIsolated(Fleet& fleet, double now);

// A spare's session has ended while nobody is heard: the spare is not lost, and may come back.
void AwaitSpare(Fleet& fleet, const Member& spare);

// Whether this process was a spare before the silence, and so is to be one again: places are kept for the ranks that
// had them.
bool WasASpare(const Fleet& fleet, const std::string& incarnation);

// Gives up sessions of spares that have fallen silent since, before somebody is heard and they would count as lost.
void ContinueIsolation(Fleet& fleet, double now);

// Somebody is heard, with any message: from here on the others have as long to come back as after a restart.
void EndIsolation(Fleet& fleet, double now);

// Whether the session was given up. Its messages may still arrive, from a stream that came back to life and is about to
// end.
inline bool IsGivenUp(const Fleet& fleet, MemberId id) { return fleet.hearing.given_up.contains(id); }

// Gives spares the places of a recovery for which nobody has come back in time.
void CheckIsolation(Fleet& fleet, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_ISOLATION_H_
