// What a trainer needs from its coordinator: messages out, messages in, and notice when the fleet is lost.
//
// services/session/session_client.h implements it over gRPC; tests implement it in memory.
#ifndef ZEROFLEET_WORKER_TRAINER_FLEET_SESSION_H_
#define ZEROFLEET_WORKER_TRAINER_FLEET_SESSION_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::trainer {

class FleetSession {
 public:
  virtual ~FleetSession() = default;

  // Sends a message; its generation, if it has none, is that of the last message received. Thread-safe. Returns
  // Unavailable, with the reason, once the session is lost.
  virtual absl::Status Send(v1::WorkerMessage message) = 0;

  // The next message from the coordinator. DeadlineExceeded if none arrives within `timeout_seconds` (0: only one
  // that has already arrived). Unavailable, or the coordinator's own status if it refused this worker, once the session
  // is lost.
  virtual absl::StatusOr<v1::CoordinatorMessage> Receive(double timeout_seconds) = 0;

  // From now on a heartbeat built by `heartbeat` is sent at the session's interval, from the session's own thread.
  virtual void StartHeartbeats(std::function<v1::Heartbeat()> heartbeat) = 0;

  // `handler` is called for each Regroup, from the session's own thread and before Receive returns it, with the
  // generation that comes next.
  virtual void OnRegroup(std::function<void(uint64_t generation, absl::Status reason)> handler) = 0;

  // `handler` is called once, from the session's own thread, when the session is lost (stream broken, refused).
  virtual void OnLost(std::function<void(absl::Status)> handler) = 0;
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_FLEET_SESSION_H_
