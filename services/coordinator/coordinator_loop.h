// Runs the pure coordinator: one lock around it, a thread that lets time pass, one that carries its outputs out in
// order, and one that stores: commits checkpoints or discards them, keeps flight records. Knows nothing of gRPC.
//
// Under the lock there is only the decision: sending, publishing, logging and storage happen on the carrier's thread,
// so that a slow disk or peer delays no heartbeat.
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

// A worker's session as the loop sees it. Calls only start what they do.
class SessionSink {
 public:
  virtual ~SessionSink() = default;
  virtual void Send(std::shared_ptr<const v1::CoordinatorMessage> message) = 0;
  virtual void Close() = 0;                             // once everything sent has left
  virtual void Refuse(const absl::Status& status) = 0;  // at once; nothing is owed to it
};

// What the loop asks of the world; each may block for as long as storage takes.
struct CoordinatorHooks {
  std::function<absl::Status(const coordinator::CoordinatorState&)> persist;
  std::string state_path;  // where, for people
  // How long a state that cannot be saved is tried again: nothing that rests on it is carried out meanwhile.
  absl::Duration persist_patience = absl::Seconds(10);
  // Moves a damaged step directory out of the way.
  std::function<absl::Status(const std::string&)> set_aside;
  // Keeps what the ranks of a lost view were doing. What cannot be kept is a warning in the log.
  std::function<absl::Status(const v1::Flight&)> keep_flight;
  // Commits a checkpoint. Called from a thread of its own.
  std::function<absl::StatusOr<coordinator::CommittedStep>(const v1::CheckpointManifest&)> commit;
  // Removes what a failed save left, as far as it can. From the same thread as commits, one at a time.
  std::function<void(const coordinator::DiscardSave&)> discard;
  // Reads a checkpoint, and says whether it is whole. From the same thread.
  std::function<absl::Status(const coordinator::VerifyCheckpoint&)> verify;
  // Grows while a commit or a removal gets on. Called with the lock: quick.
  std::function<int64_t()> stored_bytes = [] { return int64_t{0}; };
  // Looks at the state, for metrics; every tick and at the end. Called with the lock: quick.
  std::function<void(const coordinator::Fleet&, double now)> observe;
  // Whether a line of this level is wanted, and one line for the log: an output with its reason.
  std::function<bool(LogLevel)> logs;
  std::function<void(LogLevel, const std::string& line)> log;
  // The trace id of what follows; called with a lock: quick.
  std::function<void(const std::string& trace_id)> traced = [](const std::string&) {};
};

// A session has this long to say Hello. So many sessions may be without one at a time, beside those of the workers and
// spares that the run has, which may all come at once.
inline constexpr double kHelloSeconds = 10;
inline constexpr size_t kMostSilentSessions = 32;

class CoordinatorLoop {
 public:
  // `clock` outlives the loop.
  CoordinatorLoop(coordinator::FleetParameters parameters, CoordinatorHooks hooks, const Clock& clock);
  ~CoordinatorLoop();  // joins the threads; sessions must be gone

  // Time begins to pass, and outputs to be carried out.
  void StartThreads();

  // ResourceExhausted if too many sessions have not said Hello yet; the sink is then unknown to the loop.
  absl::StatusOr<coordinator::MemberId> OpenSession(SessionSink* sink);
  void Receive(coordinator::MemberId member, v1::WorkerMessage message);
  void SessionEnded(coordinator::MemberId member, const std::string& cause);  // nothing more will be received
  void ForgetSession(coordinator::MemberId member);  // its sink is not used again; waits for a Send in progress

  void Stop(const std::string& reason);
  // Takes no further decision and ends with Cancelled: the run goes on without this process, under the next one.
  void Abandon(const std::string& reason);
  void StorageIsLost(const absl::Status& status);
  void NoteStorage(const std::string& message, bool emptied);  // coordinator::StorageNotice
  void Warn(const std::string& line);                          // for the log alone; never waits for it
  v1::GetStatusResponse GetStatus(const v1::GetStatusRequest& request = {});
  // The trace id that a worker's call carries: what a coordinator that adopts a running view takes over.
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
  // The key and the trace id of its view into an assignment that is about to be sent.
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
  void TellOfStorage(const std::string& line);  // at once: the carrier waits for that storage
  void RefuseTheSilent();
  static void TellComplete(SessionSink& sink);  // for who comes after the run
  void Log(const coordinator::Output& output);
  void Observe() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TickUntilShutDown();
  void CarryOutUntilShutDown();
  // Each answers with what the coordinator is to be told, if anything.
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
  const bool is_large_;  // so large that a line of the log for each rank is too much
  EventLog events_;
  LogPump log_;
  StorageCalls storage_calls_;  // the carrier's

  absl::Mutex mutex_;
  coordinator::Coordinator coordinator_ ABSL_GUARDED_BY(mutex_);
  std::deque<coordinator::Output> outputs_ ABSL_GUARDED_BY(mutex_);  // decided, not carried out yet
  bool overflowed_ ABSL_GUARDED_BY(mutex_) = false;
  // Bounded: CheckShard in coordinator/commit.cc; one verification; and the newest flight.
  using Save = std::variant<coordinator::WriteManifest, coordinator::DiscardSave, coordinator::VerifyCheckpoint,
                            coordinator::KeepFlight>;
  std::deque<Save> saves_ ABSL_GUARDED_BY(mutex_);
  int64_t stored_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // that the coordinator has been told of
  bool shutting_down_ ABSL_GUARDED_BY(mutex_) = false;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;

  // Never held together with the one above.
  absl::Mutex sessions_mutex_;
  std::unordered_map<coordinator::MemberId, Session> sessions_ ABSL_GUARDED_BY(sessions_mutex_);
  // The sink to which the carrier sends just now, without the lock: sending is a system call, and every message that
  // comes in looks for its session. Changed by the carrier alone, with the lock.
  SessionSink* lent_ = nullptr;
  absl::Mutex trace_mutex_;
  std::string trace_id_ ABSL_GUARDED_BY(trace_mutex_);  // of the newest view; empty before the first
  // The key of the newest view; used by the carrier's thread alone.
  std::string view_key_;
  uint64_t view_key_generation_ = 0;
  size_t silent_ ABSL_GUARDED_BY(sessions_mutex_) = 0;  // sessions that have not spoken
  coordinator::MemberId last_member_ ABSL_GUARDED_BY(sessions_mutex_) = 0;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(sessions_mutex_);

  std::thread ticker_, carrier_, storer_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_COORDINATOR_COORDINATOR_LOOP_H_
