// The coordinator: one pure state machine. It has no threads, sockets, files or clock: whoever holds it feeds events
// with the time, one at a time, and carries the outputs out in order.
//
// The life of a run: workers join and agree (rendezvous), get ranks and a generation (view), load a checkpoint
// (load_phase), train with heartbeats and commits (training, commit, liveness), and end (stop, ending). A restarted
// coordinator takes over its predecessor's fleet (adoption).
#ifndef ZEROFLEET_COORDINATOR_COORDINATOR_H_
#define ZEROFLEET_COORDINATOR_COORDINATOR_H_

#include <vector>

#include "coordinator/event.h"
#include "coordinator/fleet.h"
#include "coordinator/output.h"

namespace zerofleet::coordinator {

class Coordinator {
 public:
  // `now_seconds` is on any clock that only moves forward; the time to form counts from here.
  Coordinator(FleetParameters parameters, double now_seconds);

  std::vector<Output> Step(const CoordinatorEvent& event, double now_seconds);

  const Fleet& fleet() const { return fleet_; }

 private:
  void Handle(const MessageReceived& received, double now);
  void Handle(const SessionClosed& closed, double now);
  void Handle(const Tick& tick, double now);
  void Handle(const StopAsked& stop, double now);
  void Handle(const ManifestWritten& written, double now);
  void Handle(const CheckpointVerified& verified, double now);
  void Handle(const SaveDiscarded& discarded, double now);
  void Handle(const StorageProgress& progress, double now);
  void Handle(const StorageNotice& notice, double now);
  void Handle(const StorageLost& lost, double now);
  void Handle(const PersistFailed& failed, double now);

  // True if the message belongs to a view that is over, or to none; it is then ignored and counted (heartbeats are not
  // counted).
  bool Stale(const v1::WorkerMessage& message);
  void Dispatch(Member& member, const v1::WorkerMessage& message, double now);

  Fleet fleet_;
};

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_COORDINATOR_H_
