// A worker's session with its coordinator: the real services::SessionMachine, with simulated streams, time and chance
// in place of those that services/session/session_client gives it.
#ifndef ZEROFLEET_TESTS_SIM_SIM_SESSION_H_
#define ZEROFLEET_TESTS_SIM_SIM_SESSION_H_

#include <functional>
#include <optional>

#include "services/session/session_machine.h"
#include "tests/sim/network.h"
#include "tests/sim/world.h"

namespace zerofleet::sim {

struct SessionHooks {
  // Runs work of its process: later if the process is frozen, never if it is gone.
  std::function<void(std::function<void()>)> process;
  // Called when a message can be taken, or the session is over.
  std::function<void()> can_take;
  std::function<v1::Heartbeat()> heartbeat;
};

class SimSession : public SessionEnd {
 public:
  SimSession(World& world, Network& network, SessionHooks hooks)
      : world_(world), network_(network), hooks_(std::move(hooks)) {}

  // Waits for a coordinator for as long as connecting may take; the first message is `hello`.
  void Connect(const v1::WorkerMessage& hello);
  void Send(v1::WorkerMessage message);
  std::optional<v1::CoordinatorMessage> Take();
  void StartHeartbeats();
  // The process ends: messages that it has sent are delivered, if a stream is open.
  void Close();
  // The process was killed.
  void Kill();

  bool connected() const { return machine_.has_value(); }  // true once it has been connected
  bool over() const { return over_; }
  coordinator::MemberId stream() const { return stream_; }  // 0: no stream is open

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
  std::optional<services::SessionMachine> machine_;  // empty until the first stream is open
  coordinator::MemberId stream_ = 0;
  bool over_ = false, beat_is_due_ = false;
};

}  // namespace zerofleet::sim

#endif  // ZEROFLEET_TESTS_SIM_SIM_SESSION_H_
