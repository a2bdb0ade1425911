// Many sessions with one coordinator from one process: workers without a model, for measuring the coordinator.
//
// Each session is a stream of its own and says what a worker says: Hello, Ready, Entered, LoadResult, heartbeats with
// their progress and pace, and Ready once more, with a flight record, when its view is lost. Nothing takes it any time.
// Sessions may share connections, which the workers of a run do not: what a connection costs can be told from what a
// session costs that way.
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
  int sessions_per_connection = 1;     // at most 32, which a coordinator accepts
  int sessions_per_host = 8;           // as far as the coordinator can tell
  int transport_address_bytes = 1024;  // of each
  int peers = 0;                       // whose addresses each asks for before it enters a view; at most 64
  double patience_seconds = 120;       // for any of the waits
};

class SessionSwarm {
 public:
  // Opens all sessions and says Hello in each; returns without waiting for an answer. Unavailable if nothing answers.
  static absl::StatusOr<std::unique_ptr<SessionSwarm>> Start(const SessionSwarmOptions& options);
  ~SessionSwarm();  // breaks what is left

  // Opens one more.
  absl::Status Add();
  // The stream of the session that has this rank breaks, as if its process had been killed. NotFound if none has it.
  absl::Status Break(int rank);

  // Seconds of the monotonic clock when the last of `members` was told its place in a view, or to train in it, of a
  // generation above `generation`; once that has happened. DeadlineExceeded if it does not; the reason, if a session
  // that was not broken ends meanwhile.
  struct View {
    uint64_t generation = 0;
    double assigned = 0, started = 0;
  };
  absl::StatusOr<View> AwaitView(int members, uint64_t generation);

  // Sends so many heartbeats a second, evenly over all sessions, for so long; how many a second it came to. A session
  // that has not written its last one yet does not get another.
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
