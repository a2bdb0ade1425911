// A worker's session with the coordinator as a state machine: events and the time go in, and what to do next comes out.
// It has no gRPC, threads or clock of its own: session_client.h provides them, and for the simulated fleet, tests/sim.
//
// A session is one stream after another. While a stream is open, messages pass and heartbeats are due. When it breaks,
// the machine pauses, then connects until a coordinator can be reached, and opens the next stream: this begins with the
// journal's Hello, and the rest of the journal follows once the coordinator has welcomed the worker. If no coordinator
// is found in time, or one has refused this worker, the session is over.
#ifndef ZEROFLEET_SERVICES_SESSION_SESSION_MACHINE_H_
#define ZEROFLEET_SERVICES_SESSION_SESSION_MACHINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "services/session/session_journal.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::services {

struct SessionMachineOptions {
  std::string coordinator;                // the coordinator's address, for messages
  double heartbeat_interval_seconds = 0;  // 0: from the Welcome's heartbeat timeout
  double connect_timeout_seconds = 0;     // how long it goes on without a coordinator before the first Welcome
  std::optional<double> reconnect_seconds = std::nullopt;  // how long it goes on without one in any case
};

// The interval of a worker's heartbeats for this heartbeat timeout: a quarter of it, so that three beats may be late or
// lost before the timeout, and at least 0.05 s.
double HeartbeatSeconds(double timeout_seconds);

// How a stream ended, if this side did not end it.
struct StreamEnd {
  enum class Kind {
    kOver,    // the coordinator ended or refused it
    kBroken,  // without a word from the coordinator: another may answer
    kFull,    // the coordinator has no room for more sessions without a Hello
  };
  Kind kind = Kind::kOver;
  absl::Status status;  // why
};

// What the writing side of an open stream does next.
struct WriteNothing {};    // wait until HasWork, or NextHeartbeat
struct WriteHeartbeat {};  // write what Beat returns
struct WriteNoMore {};     // all is written; close the writing side
using NextWrite = std::variant<WriteNothing, v1::WorkerMessage, WriteHeartbeat, WriteNoMore>;

class SessionMachine {
 public:
  enum class Phase { kOpen, kPausing, kConnecting, kOver };

  // The first stream is open. Times are in seconds, monotonic.
  explicit SessionMachine(SessionMachineOptions options);

  Phase phase() const { return phase_; }
  double paused_until() const { return paused_until_; }

  // --- The worker's side.

  // Queues a message; if it has no generation, sets that of the last message taken. Why the session is over, or
  // Unavailable, if it cannot be queued.
  absl::Status Send(v1::WorkerMessage message);
  bool CanTake() const { return !incoming_.empty() || !lost_.ok(); }
  // The next message that has arrived, if there is one.
  std::optional<v1::CoordinatorMessage> Take();
  // Why the session is over; OK while it is not.
  const absl::Status& lost() const { return lost_; }
  // The run is complete: the end of the session is no loss.
  bool completed() const { return completed_; }
  void StartHeartbeats();
  // The worker sends nothing more: an open stream ends once all is written, and none follows it.
  void Close();
  bool closing() const { return closing_; }

  // --- The stream's side.

  struct Arrival {
    absl::Status status;   // not OK: end the stream, and the session with it, for this reason
    bool adopted = false;  // a coordinator has welcomed a worker that came back
  };
  Arrival Arrived(v1::CoordinatorMessage message, double now);
  // Whether there is something to write before the next heartbeat is due.
  bool HasWork() const;
  double NextHeartbeat() const;  // infinity: none will be due
  NextWrite Next(double now);
  v1::WorkerMessage Beat(v1::Heartbeat heartbeat);
  // A stream is over. `jitter` is random, from 0 to 1. Returns a line for the log if the worker goes on without a
  // coordinator from here on.
  std::optional<std::string> Ended(const StreamEnd& end, double now, double jitter);

  // --- Between two streams.

  // Time has passed: a pause may be over, or the time for connecting.
  void Tick(double now);
  // A coordinator can be reached.
  void Connected(double now);

 private:
  void TakeWelcome(const v1::RestartConfig& restart);
  void GiveUp();
  void GoOver();

  SessionMachineOptions options_;
  Phase phase_ = Phase::kOpen;
  SessionJournal journal_;
  std::deque<v1::WorkerMessage> outgoing_;
  std::deque<v1::CoordinatorMessage> incoming_;
  uint64_t generation_ = 0;  // the last message's that was taken and is about the worker's view, or the next one
  bool in_view_ = false;     // according to the messages that the worker has taken
  bool beats_ = false;
  double heartbeat_seconds_;               // seconds; 0: not known yet
  double next_heartbeat_ = 0;              // 0: at once
  double give_up_seconds_;                 // how long to go on without a coordinator
  bool configured_ = false;                // give_up_seconds_ is from the run's configuration
  std::optional<int64_t> committed_step_;  // the last that the coordinator has announced
  absl::Status lost_;                      // why there is no session any more
  absl::Status ending_;                    // how the last stream ended
  bool completed_ = false;                 // a Complete has arrived
  bool known_ = true;                      // the coordinator knows it: not from a break to a Welcome
  bool closing_ = false;
  double pause_;  // seconds before the next stream
  double paused_until_ = 0;
  std::optional<double> broken_since_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_SESSION_SESSION_MACHINE_H_
