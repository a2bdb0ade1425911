// Runs the pure coordinator: one lock around it, a thread that sends it ticks, a thread that carries its outputs out in
// order (the carrier), and a thread that stores: commits checkpoints or discards them, keeps flight records. Knows
// nothing about gRPC.
//
// Only decisions are made under the lock: sending, publishing, logging and storage happen on other threads, so that a
// slow disk or peer delays no heartbeat.
#ifndef ZEROFLEET_SERVICES_COORDINATOR_COORDINATOR_LOOP_H_
#define ZEROFLEET_SERVICES_COORDINATOR_COORDINATOR_LOOP_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "coordinator/coordinator.h"
#include "services/common/logging.h"
#include "services/coordinator/event_log.h"
#include "services/coordinator/log_pump.h"
#include "services/storage/storage_calls.h"

namespace zerofleet::services {

// A worker's session as the loop sees it. The calls only start an operation and return.
class SessionSink {
 public:
  virtual ~SessionSink() = default;
  virtual void Send(std::shared_ptr<const v1::CoordinatorMessage> message) = 0;
  virtual void Close() = 0;                             // once everything sent has left
  virtual void Refuse(const absl::Status& status) = 0;  // at once; nothing else is sent to it
};

// What the loop needs from outside. A hook may block for as long as storage takes, unless its comment says otherwise.
struct CoordinatorHooks {
  std::function<absl::Status(const coordinator::CoordinatorState&)> persist;
  std::string state_path;  // where persist writes, for messages
  // How long saving the state is retried; outputs that depend on the state wait meanwhile.
  absl::Duration persist_patience = absl::Seconds(10);
  // Moves a damaged step directory out of the way.
  std::function<absl::Status(const std::string&)> set_aside;
  // Stores what the ranks of a lost view were doing. A failure is only a warning in the log.
  std::function<absl::Status(const v1::Flight&)> keep_flight;
  // Commits a checkpoint. Called from a thread of its own.
  std::function<absl::StatusOr<coordinator::CommittedStep>(const v1::CheckpointManifest&)> commit;
  // Removes what a failed save left, as far as possible. Called from the same thread as `commit`, one at a time.
  std::function<void(const coordinator::DiscardSave&)> discard;
  // Reads a checkpoint, and says whether it is whole. Called from the same thread as `commit`.
  std::function<absl::Status(const coordinator::VerifyCheckpoint&)> verify;
  // Grows while a commit or a reading makes progress. Called with the lock held, so it must be quick.
  std::function<int64_t()> stored_bytes = [] { return int64_t{0}; };
  // Reads the state, for metrics; called at every tick and at the end, with the lock held, so it must be quick.
  std::function<void(const coordinator::Fleet&, double now)> observe;
  // Whether lines of this level are logged, and the sink for a line: an output with its reason, or a warning.
  std::function<bool(LogLevel)> logs;
  std::function<void(LogLevel, const std::string& line)> log;
  // Takes the trace id from here on. Called with a lock held, so it must be quick.
  std::function<void(const std::string& trace_id)> traced = [](const std::string&) {};
};

// A session has this long to send Hello. This many sessions may be without one at a time, on top of one for each worker
// and spare of the run, since all of these may connect at once.
inline constexpr double kHelloSeconds = 10;
inline constexpr size_t kMostSilentSessions = 32;

class CoordinatorLoop {
 public:
  // `clock` outlives the loop.
  CoordinatorLoop(coordinator::FleetParameters parameters, CoordinatorHooks hooks, const Clock& clock);
  ~CoordinatorLoop();  // joins the threads; sessions must be gone

  // Starts the ticks, and carrying outputs out.
  void StartThreads();

  // ResourceExhausted if too many sessions have not sent Hello yet; the loop does not keep the sink then.
  absl::StatusOr<coordinator::MemberId> OpenSession(SessionSink* sink);
  void Receive(coordinator::MemberId member, v1::WorkerMessage message);
  void SessionEnded(coordinator::MemberId member, const std::string& cause);  // nothing more will be received
  void ForgetSession(coordinator::MemberId member);  // its sink is not used again; waits for a Send in progress

  void Stop(const std::string& reason);
  // Takes no further decision and ends with Cancelled: the run goes on without this process, under the next one.
  void Abandon(const std::string& reason);
  void StorageIsLost(const absl::Status& status);
  void NoteStorage(const std::string& message, bool emptied);  // coordinator::StorageNotice
  void Warn(const std::string& line);                          // only into the log; does not wait for it
  v1::GetStatusResponse GetStatus(const v1::GetStatusRequest& request = {});
  // Takes over the trace id that a worker's call carries, if there is none yet: a coordinator that adopts a running
  // view keeps the view's id.
  void NoteTrace(const std::string& trace_id);
  EventLog& events() { return events_; }
  int world_size();

  // The run's status, once it has ended.
  absl::Status WaitForEnd();
  // True once every session is forgotten; false after `timeout`.
  bool WaitUntilNoSessions(absl::Duration timeout);

 private:
  struct Session {
    SessionSink* sink;
    double opened;  // monotonic seconds
    bool has_spoken = false;
  };

  void Step(const coordinator::CoordinatorEvent& event) ABSL_LOCKS_EXCLUDED(mutex_);
  void StepLocked(const coordinator::CoordinatorEvent& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CarryOut(coordinator::Output& output) ABSL_LOCKS_EXCLUDED(mutex_, sessions_mutex_);
  absl::Status Do(coordinator::SendTo& send);
  // Puts the view's key and trace id into an assignment that is about to be sent.
  void GiveKeyAndTrace(coordinator::SendTo& send);
  void SetTrace(const std::string& trace_id) ABSL_LOCKS_EXCLUDED(trace_mutex_);
  std::string trace_id() ABSL_LOCKS_EXCLUDED(trace_mutex_);
  absl::Status Do(coordinator::WriteManifest& write);
  absl::Status Do(coordinator::DiscardSave& discard);
  absl::Status Do(coordinator::VerifyCheckpoint& verify);
  absl::Status Do(coordinator::PublishEvent& publish);
  absl::Status Do(coordinator::PersistState& persist);
  absl::Status Do(coordinator::SetAside& aside);
  absl::Status Do(coordinator::KeepFlight& keep);
  absl::Status Do(coordinator::CloseSession& close);
  absl::Status Do(coordinator::BreakSession& broken);
  absl::Status Do(coordinator::EndRun& end);
  void OnStorageFailure(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CloseAll(const absl::Status& end);
  void TellOfStorage(const std::string& line);  // at once, since the carrier waits for that storage
  void RefuseTheSilent();
  static void TellComplete(SessionSink& sink);  // for a worker that connects after the run
  void Log(const coordinator::Output& output);
  void Observe() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TickUntilShutDown();
  void CarryOutUntilShutDown();
  // Each returns the event for the coordinator, if there is one.
  std::optional<coordinator::CoordinatorEvent> Store(const coordinator::WriteManifest& write)
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<coordinator::CoordinatorEvent> Store(const coordinator::DiscardSave& discard)
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<coordinator::CoordinatorEvent> Store(const coordinator::VerifyCheckpoint& verify)
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<coordinator::CoordinatorEvent> Store(const coordinator::KeepFlight& keep) ABSL_LOCKS_EXCLUDED(mutex_);
  void StoreUntilShutDown();

  bool ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_) { return end_.has_value(); }
  bool no_sessions() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_) { return sessions_.empty(); }
  bool output_due() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return shutting_down_ || !outputs_.empty(); }
  bool giving_up() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return shutting_down_ || abandoned_ || coordinator_.fleet().phase == coordinator::Phase::kFailed;
  }
  bool save_due() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return shutting_down_ || !saves_.empty(); }

  const CoordinatorHooks hooks_;
  const Clock& clock_;
  const size_t most_silent_;
  const size_t most_outputs_;
  const bool is_large_;  // the fleet is so large that a log line per rank is too much
  EventLog events_;
  LogPump log_;
  StorageCalls storage_calls_;  // the carrier's

  absl::Mutex mutex_;
  coordinator::Coordinator coordinator_ ABSL_GUARDED_BY(mutex_);
  std::deque<coordinator::Output> outputs_ ABSL_GUARDED_BY(mutex_);  // decided, not carried out yet
  bool overflowed_ ABSL_GUARDED_BY(mutex_) = false;
  // Bounded: CheckShard in coordinator/commit.cc limits the commits, and there is at most one verification and one
  // flight.
  using Save = std::variant<coordinator::WriteManifest, coordinator::DiscardSave, coordinator::VerifyCheckpoint,
                            coordinator::KeepFlight>;
  std::deque<Save> saves_ ABSL_GUARDED_BY(mutex_);
  int64_t stored_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // as of the last StorageProgress
  bool shutting_down_ ABSL_GUARDED_BY(mutex_) = false;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;

  // Never held together with mutex_.
  absl::Mutex sessions_mutex_;
  std::unordered_map<coordinator::MemberId, Session> sessions_ ABSL_GUARDED_BY(sessions_mutex_);
  // The sink that the carrier is using without the lock, since sending is a system call and every message that arrives
  // needs the lock to find its session. Only the carrier changes it, with the lock held.
  SessionSink* lent_ = nullptr;
  absl::Mutex trace_mutex_;
  std::string trace_id_ ABSL_GUARDED_BY(trace_mutex_);  // the newest view's; empty before the first
  // The newest view's key; used only by the carrier's thread.
  std::string view_key_;
  uint64_t view_key_generation_ = 0;
  size_t silent_ ABSL_GUARDED_BY(sessions_mutex_) = 0;  // how many sessions have not spoken
  coordinator::MemberId last_member_ ABSL_GUARDED_BY(sessions_mutex_) = 0;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(sessions_mutex_);

  std::thread ticker_, carrier_, storer_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_COORDINATOR_COORDINATOR_LOOP_H_
