// Runs the pure coordinator: one lock around it, a thread that lets time pass, a thread that commits checkpoints, and
// its outputs carried out. Knows nothing of gRPC.
#ifndef ZEROFLEET_SERVICES_COORDINATOR_LOOP_H_
#define ZEROFLEET_SERVICES_COORDINATOR_LOOP_H_

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "coordinator/coordinator.h"
#include "services/event_log.h"

namespace zerofleet {

// A worker's session as the loop sees it. Calls are made with the loop's lock held and only start what they do.
class SessionSink {
 public:
  virtual ~SessionSink() = default;
  virtual void Send(v1::CoordinatorMessage message) = 0;
  virtual void Close() = 0;  // once everything sent has left
};

// What the loop asks of the world; each may block for as long as storage takes.
struct CoordinatorHooks {
  std::function<absl::Status(const CoordinatorState&)> persist;
  // Moves a damaged step directory out of the way.
  std::function<absl::Status(const std::string&)> set_aside;
  // Writes the manifest; the committed directory. Called from the loop's own thread, without its lock.
  std::function<absl::StatusOr<std::string>(const v1::CheckpointManifest&)> commit;
  // Looks at the state, for metrics; every tick and at the end.
  std::function<void(const Fleet&, double now)> observe;
  // One line for the log: every output, with its reason.
  std::function<void(const std::string& line)> log;
};

class CoordinatorLoop {
 public:
  // `clock` outlives the loop.
  CoordinatorLoop(FleetParameters parameters, CoordinatorHooks hooks, const Clock& clock);
  ~CoordinatorLoop();  // joins the threads; sessions must be gone

  // Time begins to pass.
  void StartThreads();

  MemberId OpenSession(SessionSink* sink);
  void Receive(MemberId member, v1::WorkerMessage message);
  void SessionEnded(MemberId member, const std::string& cause);  // nothing more will be received
  void ForgetSession(MemberId member);                           // its sink is not used again

  void Stop(const std::string& reason);
  v1::GetStatusResponse GetStatus();
  EventLog& events() { return events_; }

  // The run's status, once it has ended.
  absl::Status WaitForEnd();
  // True once every session is forgotten; false after `timeout`.
  bool WaitUntilNoSessions(absl::Duration timeout);

 private:
  void Step(const CoordinatorEvent& event) ABSL_LOCKS_EXCLUDED(mutex_);
  void StepLocked(const CoordinatorEvent& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first output that could not be carried out, if any.
  absl::Status CarryOut(std::vector<Output> outputs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Observe() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TickUntilShutDown();
  void CommitUntilShutDown();

  bool ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return end_.has_value(); }
  bool no_sessions() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return sessions_.empty(); }
  bool commit_due() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return shutting_down_ || !commits_.empty(); }

  const CoordinatorHooks hooks_;
  const Clock& clock_;
  EventLog events_;

  absl::Mutex mutex_;
  Coordinator coordinator_ ABSL_GUARDED_BY(mutex_);
  std::map<MemberId, SessionSink*> sessions_ ABSL_GUARDED_BY(mutex_);
  MemberId last_member_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<v1::CheckpointManifest> commits_ ABSL_GUARDED_BY(mutex_);  // at most one a step in progress
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool shutting_down_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread ticker_, committer_;
};

}  // namespace zerofleet

#endif  // ZEROFLEET_SERVICES_COORDINATOR_LOOP_H_
