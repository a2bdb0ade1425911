// Streams between workers and coordinators. A stream keeps its order, as gRPC's does; different streams overtake each
// other. A stream that is cut holds messages until it heals; one that breaks loses the messages on their way, and both
// ends are told.
#ifndef ZEROFLEET_TESTS_SIM_NETWORK_H_
#define ZEROFLEET_TESTS_SIM_NETWORK_H_

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "coordinator/event.h"
#include "tests/sim/world.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::sim {

class SessionEnd {
 public:
  virtual ~SessionEnd() = default;
  virtual void Receive(coordinator::MemberId stream, const v1::CoordinatorMessage& message) = 0;
  // `broken`: the coordinator did not close it.
  virtual void StreamEnded(coordinator::MemberId stream, bool broken) = 0;
};

class CoordinatorEnd {
 public:
  virtual ~CoordinatorEnd() = default;
  virtual void Receive(coordinator::MemberId member, const v1::WorkerMessage& message) = 0;
  virtual void SessionClosed(coordinator::MemberId member, const std::string& cause) = 0;
};

class Network {
 public:
  Network(World& world, bool repeats) : world_(world), repeats_(repeats) {}

  // New streams go to `coordinator`.
  void Serve(CoordinatorEnd* coordinator) { coordinator_ = coordinator; }
  // The coordinator's process is gone: its streams break.
  void Lose(CoordinatorEnd* coordinator);
  // Whether a coordinator can be reached.
  bool serves() const { return coordinator_ != nullptr && !IsCutOff(coordinator_); }
  bool IsCutOff(const CoordinatorEnd* coordinator) const;
  // Seconds for which it has been cut off; 0 if it is not.
  double CutOffFor(const CoordinatorEnd* coordinator) const;

  coordinator::MemberId Open(SessionEnd* worker);
  void Send(coordinator::MemberId member, const v1::WorkerMessage& message);
  void Send(coordinator::MemberId member, const v1::CoordinatorMessage& message);
  // The session ends once all that was sent has arrived.
  void CloseByWorker(coordinator::MemberId member);
  void CloseByCoordinator(coordinator::MemberId member);

  void Break(coordinator::MemberId member);
  // The coordinator gives the stream up: it knows at once, the worker when it can be reached.
  void BreakByCoordinator(coordinator::MemberId member);
  void Cut(coordinator::MemberId member, double seconds);
  // The coordinator's own network is gone. Streams hold messages until it is back; if they `time_out`, both ends take
  // them for broken meanwhile, each in its own time.
  void CutOff(CoordinatorEnd* coordinator, double seconds, bool time_out);

 private:
  struct Session {
    SessionEnd* worker = nullptr;           // null: it knows that the stream is over
    CoordinatorEnd* coordinator = nullptr;  // null: it knows that the stream is over
    bool broken = false;
    double cut_until = 0;
    double up_at = 0, down_at = 0;               // time in seconds at which the last message of each direction arrives
    std::deque<std::function<void()>> up, down;  // messages on their way, in order
  };

  void Carry(coordinator::MemberId member, bool up, std::function<void()> arrival);
  void Arrive(coordinator::MemberId member, bool up);
  bool TakeForBroken(Session& session);
  void TellCoordinator(coordinator::MemberId member, const std::string& cause);
  void TellWorker(coordinator::MemberId member, bool broken);

  World& world_;
  bool repeats_;
  CoordinatorEnd* coordinator_ = nullptr;
  std::map<const CoordinatorEnd*, double> cut_off_since_, cut_off_until_;
  coordinator::MemberId last_ = 0;
  std::map<coordinator::MemberId, Session> sessions_;
};

}  // namespace zerofleet::sim

#endif  // ZEROFLEET_TESTS_SIM_NETWORK_H_
