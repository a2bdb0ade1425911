// A worker's session with the coordinator, over gRPC: the threads, streams and clock of a session_machine.h.
//
// One thread reads the stream and one writes it, heartbeats included; callers exchange messages with them through two
// bounded queues, so no caller ever waits for the network. A stream that breaks is no loss yet: the session opens
// another, says what the worker was doing (session_journal.h), and callers notice only that messages arrive later. A
// message carries the generation of the last message that Receive returned, so the trainer's messages never carry one
// that it does not know yet.
#ifndef ZEROFLEET_SERVICES_SESSION_SESSION_CLIENT_H_
#define ZEROFLEET_SERVICES_SESSION_SESSION_CLIENT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/security/tls.h"
#include "worker/trainer/fleet_session.h"

namespace zerofleet::services {

struct SessionOptions {
  std::string coordinator;              // HOST:PORT
  double connect_timeout_seconds = 60;  // for a coordinator that is still starting
  // 0: HeartbeatSeconds of the run's heartbeat timeout, which is in the coordinator's Welcome.
  double heartbeat_interval_seconds = 0;
  // For how long a session without a coordinator goes on. None: the run's restart.reconnect_timeout_seconds, which is
  // in the Welcome; before a Welcome, connect_timeout_seconds.
  std::optional<double> reconnect_seconds = std::nullopt;
  // The longest that the destructor waits for queued messages to be delivered.
  double linger_seconds = 2;
  // Called several times a second while connecting; if it returns true, the attempt ends with Cancelled.
  std::function<bool()> cancelled = nullptr;
  TlsFiles tls = {};       // none: plaintext
  std::string token = "";  // shown to the coordinator; empty: none
  // The trace id of the worker's view, sent with each stream that it opens; empty: none.
  std::function<std::string()> trace_id = [] { return std::string(); };
  // Called with a line for the log, from the session's thread, when a stream breaks.
  std::function<void(const std::string& line)> note = nullptr;
};

class SessionClient : public trainer::FleetSession {
 public:
  // Opens the session. InvalidArgument for a malformed address or a TLS file; Unavailable, naming the address, if
  // nothing answers within the timeout.
  static absl::StatusOr<std::unique_ptr<SessionClient>> Connect(const SessionOptions& options);

  // Delivers queued messages (a Failure, say), within the linger time, then ends the stream. No handler runs after it,
  // and no handler may call it.
  ~SessionClient() override;

  absl::Status Send(v1::WorkerMessage message) override;
  absl::StatusOr<v1::CoordinatorMessage> Receive(double timeout_seconds) override;
  // `heartbeat` runs on the writing thread: the time that it takes delays sending.
  void StartHeartbeats(std::function<v1::Heartbeat()> heartbeat) override;
  void OnRegroup(std::function<void(uint64_t generation, absl::Status reason)> handler) override;
  // The end of the stream after a Complete is no loss. A handler that is set after the loss is called, too.
  void OnLost(std::function<void(absl::Status)> handler) override;

 private:
  struct Impl;
  explicit SessionClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_SESSION_SESSION_CLIENT_H_
