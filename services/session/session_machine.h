// What a worker's session with the coordinator does, as a state machine: what happens to it and the time go in, what is
// to be done comes out. It has no gRPC, threads or clock of its own: session_client.h gives it those, the simulated
// fleet of tests/sim others.
//
// A session is one stream after another. While one is open, messages pass and heartbeats are due. One that breaks
// leaves the machine pausing, then connecting until a coordinator can be reached, and then the next one is open: it
// begins with the journal's Hello, and what else the journal holds follows once the coordinator has welcomed the
// worker. Where no coordinator is found in time, or one has refused this worker, the session is over.
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
  std::string coordinator;                // its address, for messages
  double heartbeat_interval_seconds = 0;  // 0: as the Welcome tells
  double connect_timeout_seconds = 0;     // for how long it goes on without a coordinator that it has not heard of yet
  std::optional<double> reconnect_seconds = std::nullopt;  // for how long in any case
};

// How often a worker beats in a run of this heartbeat timeout: four times, so that three beats may be late or lost
// before the coordinator worries, and at most 20 times a second.
double HeartbeatSeconds(double timeout_seconds);

// How a stream ended that was not ended by this side.
struct StreamEnd {
  enum class Kind {
    kOver,    // the coordinator ended or refused it
    kBroken,  // without a word of the coordinator's: another may answer
    kFull,    // the coordinator has no room for those who say nothing yet
  };
  Kind kind = Kind::kOver;
  absl::Status status;  // why
};

// What the writing side of an open stream does next.
struct WriteNothing {};    // until HasWork, or NextHeartbeat
struct WriteHeartbeat {};  // what Beat makes of one
struct WriteNoMore {};     // all is written, and nothing will follow
using NextWrite = std::variant<WriteNothing, v1::WorkerMessage, WriteHeartbeat, WriteNoMore>;

class SessionMachine {
 public:
  enum class Phase { kOpen, kPausing, kConnecting, kOver };

  // The first stream is open. Times are in seconds, monotonic.
  explicit SessionMachine(SessionMachineOptions options);

  Phase phase() const { return phase_; }
  double paused_until() const { return paused_until_; }

  // --- The worker's side.

  // Queues a message, stamped with the generation of the last message taken if it has none. Unavailable, or why the
  // session is over, if it cannot.
  absl::Status Send(v1::WorkerMessage message);
  bool CanTake() const { return !incoming_.empty() || !lost_.ok(); }
  // The next message that has arrived, if there is one.
  std::optional<v1::CoordinatorMessage> Take();
  // Why the session is over; OK while it is not.
  const absl::Status& lost() const { return lost_; }
  // The run is complete: the end of the session is no loss.
  bool completed() const { return completed_; }
  void StartHeartbeats();
  // The worker says nothing more: an open stream ends once all is written, and none follows it.
  void Close();
  bool closing() const { return closing_; }

  // --- The stream's side.

  struct Arrival {
    absl::Status status;   // not OK: the stream is to be ended, and the session with it, for this reason
    bool adopted = false;  // a coordinator has welcomed a worker that came back
  };
  Arrival Arrived(v1::CoordinatorMessage message, double now);
  // There is something to write before the next heartbeat is due.
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
  uint64_t generation_ = 0;  // of the last message taken that says something of the worker's view, or of its next
  bool in_view_ = false;     // as far as the worker has taken messages
  bool beats_ = false;
  double heartbeat_seconds_;               // 0: not known yet
  double next_heartbeat_ = 0;              // 0: at once
  double give_up_seconds_;                 // without a coordinator
  bool configured_ = false;                // as the run says
  std::optional<int64_t> committed_step_;  // the last that the coordinator has told of
  absl::Status lost_;                      // why there is no session any more
  absl::Status ending_;                    // how the last stream ended
  bool completed_ = false;                 // a Complete has come
  bool known_ = true;                      // to who answers: false until it has welcomed a worker that came back
  bool closing_ = false;
  double pause_;  // before the next stream
  double paused_until_ = 0;
  std::optional<double> broken_since_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_SESSION_SESSION_MACHINE_H_
