// Silence of all: the coordinator takes itself to be cut off, and not every worker to be lost at one time.
//
// It then behaves as after its own crash, and nobody is charged. Sessions are given up, in a way that tells workers to
// connect again, spares as ranks. The ranks of a view are away (away.h) and train on; they come back as to a
// coordinator that was started again (adoption.h), and ranks that stay away are lost. Where no view trains, the members
// join again, and get the ranks that they had in the last one.
#ifndef ZEROFLEET_COORDINATOR_ISOLATION_H_
#define ZEROFLEET_COORDINATOR_ISOLATION_H_

#include <string>

#include "coordinator/fleet.h"

namespace zerofleet::coordinator {

// How long this member may be silent. Before its first heartbeat it may be busy loading or opening data.
double SilenceLimit(const Fleet& fleet, const Member& member);

// Who may be to blame, where somebody is silent.
enum class Silence {
  kOfSome,  // others are heard: those who are silent
  kOfAll,   // nobody is heard: this coordinator
  kUnclear  // nobody is heard lately, and not of everybody for long enough
};
Silence SilenceNow(const Fleet& fleet, double now);

// A message has come lately, of whomever.
bool HearsAnybody(const Fleet& fleet, double now);

// Gives up all sessions but those of spares that are heard.
void BecomeIsolated(Fleet& fleet, double now);

// A spare's session has ended while nobody is heard: it is not lost, and may come back.
void AwaitSpare(Fleet& fleet, const Member& spare);

// This process was a spare before nobody was heard, and is to be one again: a place is for the rank that had it.
bool WasASpare(const Fleet& fleet, const std::string& incarnation);

// Gives up sessions of spares that have fallen silent since, before anybody is heard who would have them lost.
void ContinueIsolation(Fleet& fleet, double now);

// Somebody is heard, of whatever: the others have from here on as long to come back as after a restart.
void EndIsolation(Fleet& fleet, double now);

// The session is one that was given up, whose messages still arrive: a stream that came back to life, to end at once.
inline bool IsGivenUp(const Fleet& fleet, MemberId id) { return fleet.hearing.given_up.contains(id); }

// Places of a recovery for which nobody has come back are the spares'.
void CheckIsolation(Fleet& fleet, double now);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_ISOLATION_H_
