// Many sessions with one coordinator from one process: workers without a model, for measuring the coordinator.
//
// Each session is a stream of its own and sends what a worker sends: Hello, Ready, Entered, LoadResult, heartbeats with
// their progress and pace, and Ready once more, with a flight record, when its view is lost. It answers at once.
// Sessions may share connections, unlike the workers of a run, to distinguish the cost of a connection from that of a
// session.
#ifndef ZEROFLEET_SERVICES_SESSION_SESSION_SWARM_H_
#define ZEROFLEET_SERVICES_SESSION_SESSION_SWARM_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zerofleet::services {

struct SessionSwarmOptions {
  std::string coordinator;             // HOST:PORT
  int sessions = 1;                    // opened by Start
  int sessions_per_connection = 1;     // at most 32, as a coordinator accepts
  int sessions_per_host = 8;           // how many give the same host in Hello
  int transport_address_bytes = 1024;  // size of each session's
  int peers = 0;                       // how many peers' addresses each requests before it enters a view; at most 64
  double patience_seconds = 120;       // the longest that each wait may take
};

class SessionSwarm {
 public:
  // Opens all sessions and sends Hello in each; returns without waiting for an answer. Unavailable if nothing answers.
  static absl::StatusOr<std::unique_ptr<SessionSwarm>> Start(const SessionSwarmOptions& options);
  ~SessionSwarm();  // breaks what is left

  // Opens another session.
  absl::Status Add();
  // Breaks the stream of the session that has this rank, as if its process had been killed. NotFound if none has it.
  absl::Status Break(int rank);

  // Waits until all of `members` sessions train in a view of a generation above `generation`. `assigned` and `started`,
  // in seconds of the monotonic clock, are when the last of them got its Assignment and its Start. DeadlineExceeded if
  // that does not happen in time; the reason if a session that was not broken ends meanwhile.
  struct View {
    uint64_t generation = 0;
    double assigned = 0, started = 0;
  };
  absl::StatusOr<View> AwaitView(int members, uint64_t generation);

  // Sends `per_second` heartbeats a second, evenly over all sessions, for `seconds`; returns the rate that was reached.
  // A session that has not written its last heartbeat yet does not send another.
  double Beat(double per_second, double seconds);

  // Finishes all sessions that are in a view, and waits for their Complete.
  absl::Status Finish();

 private:
  struct Tally;
  class Session;
  struct Impl;
  explicit SessionSwarm(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_SESSION_SESSION_SWARM_H_
