// A worker's session with its coordinator: the real services::SessionMachine, which this gives streams, time and chance
// as services/session/session_client does in a process.
#ifndef ZEROFLEET_TESTS_SIM_SIM_SESSION_H_
#define ZEROFLEET_TESTS_SIM_SIM_SESSION_H_

#include <functional>
#include <optional>

#include "services/session/session_machine.h"
#include "tests/sim/network.h"
#include "tests/sim/world.h"

namespace zerofleet::sim {

struct SessionHooks {
  // Runs what its process does: later if that is stopped, never if it is gone.
  std::function<void(std::function<void()>)> process;
  // A message can be taken, or the session is over.
  std::function<void()> can_take;
  std::function<v1::Heartbeat()> heartbeat;
};

class SimSession : public SessionEnd {
 public:
  SimSession(World& world, Network& network, SessionHooks hooks)
      : world_(world), network_(network), hooks_(std::move(hooks)) {}

  // Waits for a coordinator, for as long as connecting may take; the first message is `hello`.
  void Connect(const v1::WorkerMessage& hello);
  void Send(v1::WorkerMessage message);
  std::optional<v1::CoordinatorMessage> Take();
  void StartHeartbeats();
  // Its process ends: what it has said is delivered, if a stream is open.
  void Close();
  // Its process was killed.
  void Kill();

  bool connected() const { return machine_.has_value(); }  // it has been
  bool over() const { return over_; }
  coordinator::MemberId stream() const { return stream_; }  // 0: none is open

  void Receive(coordinator::MemberId stream, const v1::CoordinatorMessage& message) override;
  void StreamEnded(coordinator::MemberId stream, bool broken) override;

 private:
  void ConnectBefore(double deadline, const v1::WorkerMessage& hello);
  void Write();
  void Later(double seconds, void (SimSession::*what)());
  void Beat();
  void Ended(const services::StreamEnd& end);
  void OpenAgain();
  void GoOver();

  World& world_;
  Network& network_;
  const SessionHooks hooks_;
  std::optional<services::SessionMachine> machine_;  // none until the first stream is open
  coordinator::MemberId stream_ = 0;
  bool over_ = false, beat_is_due_ = false;
};

}  // namespace zerofleet::sim

#endif  // ZEROFLEET_TESTS_SIM_SIM_SESSION_H_
