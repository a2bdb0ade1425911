// Feeding the coordinator and carrying out what it decides; see coordinator_loop.h.
#include "services/coordinator/coordinator_loop.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/cut_text.h"
#include "base/kill_point.h"
#include "coordinator/status_view.h"
#include "services/common/trace.h"
#include "services/security/token.h"

namespace zerofleet::services {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);
constexpr absl::Duration kPersistPause = absl::Milliseconds(100);
// The most outputs that may wait for storage that does not answer: enough for minutes of a small fleet, and for all
// that a fleet of any size is sent when a view forms, is lost with all its ranks, and is told to end.
constexpr size_t kMostOutputs = 65'536, kMostOutputsOfAMember = 12;
constexpr size_t kMostLogLine = 2048;  // bytes; a manifest's tensor table alone can be 100 KB

// Outputs of every step and the parts of a commit are logged for debugging only; the others are the run's history.
struct IsRoutine {
  bool operator()(const coordinator::SendTo& send) const {
    return send.message->checkpoint().committed() || send.message->has_peers();
  }
  bool operator()(const coordinator::PublishEvent& publish) const { return publish.event.has_step(); }
  bool operator()(const coordinator::WriteManifest&) const { return true; }
  bool operator()(const coordinator::DiscardSave&) const { return false; }
  bool operator()(const coordinator::VerifyCheckpoint&) const { return false; }
  bool operator()(const coordinator::PersistState&) const { return true; }
  bool operator()(const coordinator::SetAside&) const { return false; }
  bool operator()(const coordinator::KeepFlight&) const { return false; }
  bool operator()(const coordinator::CloseSession&) const { return false; }
  bool operator()(const coordinator::BreakSession&) const { return true; }
  bool operator()(const coordinator::EndRun&) const { return false; }
};

// Whether an output must be dropped if the state before it could not be saved: all but the end of a failed run.
bool RestsOnState(const coordinator::Output& output) {
  const auto* send = std::get_if<coordinator::SendTo>(&output.action);
  return send != nullptr ? !send->message->has_refused()
                         : std::holds_alternative<coordinator::WriteManifest>(output.action);
}

// In a large fleet messages to each member are logged for debugging only, too: the history has a line per view, not per
// rank.
LogLevel LevelOf(const coordinator::Output& output, bool is_large) {
  const auto* send = std::get_if<coordinator::SendTo>(&output.action);
  const bool of_one_rank = is_large && send != nullptr && !send->message->has_refused();
  return of_one_rank || std::visit(IsRoutine(), output.action) ? LogLevel::kDebug : LogLevel::kInfo;
}

// Kill points before the coordinator takes in a worker's message, NOLINTBEGIN(bugprone-branch-clone): the branches
// differ where kill points are built
void PassKillPoints(const v1::WorkerMessage& message) {
  using Body = v1::WorkerMessage::BodyCase;
  switch (message.body_case()) {
    case Body::kHello:
      ZF_KILL_POINT("coordinator/hello-received");
      if (message.hello().has_rejoin()) ZF_KILL_POINT("coordinator/rejoin-received");
      return;
    case Body::kReady: return ZF_KILL_POINT("coordinator/ready-received");
    case Body::kEntered: return ZF_KILL_POINT("coordinator/entered-received");
    case Body::kLoadResult: return ZF_KILL_POINT("coordinator/load-result-received");
    case Body::kShardWritten: return ZF_KILL_POINT("coordinator/shard-received");
    case Body::kFinished: return ZF_KILL_POINT("coordinator/finished-received");
    default: return;
  }
}

// and kill points before it sends a message.
void PassKillPoints(const v1::CoordinatorMessage& message) {
  using Body = v1::CoordinatorMessage::BodyCase;
  switch (message.body_case()) {
    case Body::kWelcome: return ZF_KILL_POINT("coordinator/welcome");
    case Body::kAssignment: return ZF_KILL_POINT("coordinator/assignment");
    case Body::kLoad: return ZF_KILL_POINT("coordinator/load");
    case Body::kStart: return ZF_KILL_POINT("coordinator/start");
    case Body::kCheckpoint: return ZF_KILL_POINT("coordinator/outcome");
    case Body::kRegroup: return ZF_KILL_POINT("coordinator/regroup");
    case Body::kComplete: return ZF_KILL_POINT("coordinator/complete");
    default: return;
  }
}
// NOLINTEND(bugprone-branch-clone)

}  // namespace

CoordinatorLoop::CoordinatorLoop(coordinator::FleetParameters parameters, CoordinatorHooks hooks, const Clock& clock)
    : hooks_(std::move(hooks)),
      clock_(clock),
      most_silent_(kMostSilentSessions + parameters.config.parallel().workers() + parameters.config.restart().spares()),
      most_outputs_(kMostOutputs + kMostOutputsOfAMember * most_silent_),
      is_large_(parameters.config.parallel().workers() > parameters.most_inline_ranks),
      log_(hooks_.log),
      storage_calls_(
          {parameters.config.checkpoint().stall_timeout_seconds(),
           static_cast<double>(parameters.config.restart().form_timeout_seconds())},
          [this](const std::string& line) { TellOfStorage(line); }, clock),
      coordinator_(std::move(parameters), clock.MonotonicSeconds()) {
  if (!coordinator_.fleet().ended()) return;
  events_.End();
  end_ = absl::OkStatus();
}

CoordinatorLoop::~CoordinatorLoop() {
  {
    absl::MutexLock lock(&mutex_);
    shutting_down_ = true;
  }
  for (std::thread* thread : {&ticker_, &carrier_, &storer_}) {
    if (thread->joinable()) thread->join();
  }
}

void CoordinatorLoop::StartThreads() {
  ticker_ = std::thread([this] { TickUntilShutDown(); });
  carrier_ = std::thread([this] { CarryOutUntilShutDown(); });
  storer_ = std::thread([this] { StoreUntilShutDown(); });
}

absl::StatusOr<coordinator::MemberId> CoordinatorLoop::OpenSession(SessionSink* sink) {
  absl::MutexLock lock(&sessions_mutex_);
  if (silent_ >= most_silent_) {
    return absl::ResourceExhaustedError(
        absl::StrCat(silent_, " sessions have not said who they are yet; no more are taken until they do"));
  }
  ++silent_;
  sessions_[++last_member_] = {sink, clock_.MonotonicSeconds()};
  if (end_ && !end_->ok()) sink->Close();  // the run is over
  return last_member_;
}

void CoordinatorLoop::Receive(coordinator::MemberId member, v1::WorkerMessage message) {
  {
    absl::MutexLock lock(&sessions_mutex_);
    auto session = sessions_.find(member);
    if (session != sessions_.end() && !std::exchange(session->second.has_spoken, true)) {
      --silent_;
      // Complete is sent only after a Hello: before that, the worker may not read yet, and the stream could end first.
      if (end_ && end_->ok() && message.has_hello()) return TellComplete(*session->second.sink);
    }
  }
  PassKillPoints(message);
  Step(coordinator::MessageReceived{member, std::move(message)});
}

void CoordinatorLoop::TellComplete(SessionSink& sink) {
  auto complete = std::make_shared<v1::CoordinatorMessage>();
  complete->mutable_complete();
  sink.Send(std::move(complete));
  sink.Close();
}

void CoordinatorLoop::SessionEnded(coordinator::MemberId member, const std::string& cause) {
  Step(coordinator::SessionClosed{member, cause});
}

void CoordinatorLoop::ForgetSession(coordinator::MemberId member) {
  absl::MutexLock lock(&sessions_mutex_);
  const auto session = sessions_.find(member);
  if (session == sessions_.end()) return;
  const Session& forgotten = session->second;  // a reference stays valid if others are added meanwhile
  auto returned = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(sessions_mutex_) { return lent_ != forgotten.sink; };
  sessions_mutex_.Await(absl::Condition(&returned));
  if (!forgotten.has_spoken) --silent_;
  sessions_.erase(member);
}

void CoordinatorLoop::Stop(const std::string& reason) { Step(coordinator::StopAsked{reason}); }

void CoordinatorLoop::Abandon(const std::string& reason) {
  {
    absl::MutexLock lock(&mutex_);
    abandoned_ = true;
  }
  events_.End();
  absl::MutexLock lock(&sessions_mutex_);
  if (!end_) end_ = absl::CancelledError(reason);
}

void CoordinatorLoop::StorageIsLost(const absl::Status& status) { Step(coordinator::StorageLost{status}); }

void CoordinatorLoop::NoteStorage(const std::string& message, bool emptied) {
  Step(coordinator::StorageNotice{message, emptied});
}

void CoordinatorLoop::NoteTrace(const std::string& trace_id) {
  if (this->trace_id().empty() && !trace_id.empty()) SetTrace(trace_id);
}

void CoordinatorLoop::SetTrace(const std::string& trace_id) {
  absl::MutexLock lock(&trace_mutex_);
  trace_id_ = trace_id;
  hooks_.traced(trace_id);
}

std::string CoordinatorLoop::trace_id() {
  absl::MutexLock lock(&trace_mutex_);
  return trace_id_;
}

void CoordinatorLoop::Warn(const std::string& line) { log_.Push(LogLevel::kWarning, line); }

v1::GetStatusResponse CoordinatorLoop::GetStatus(const v1::GetStatusRequest& request) {
  absl::MutexLock lock(&mutex_);
  return coordinator::StatusOf(coordinator_.fleet(), clock_.MonotonicSeconds(), request);
}

int CoordinatorLoop::world_size() {
  absl::MutexLock lock(&mutex_);
  return coordinator_.fleet().world_size();
}

absl::Status CoordinatorLoop::WaitForEnd() {
  absl::MutexLock lock(&sessions_mutex_);
  sessions_mutex_.Await(absl::Condition(this, &CoordinatorLoop::ended));
  return *end_;
}

bool CoordinatorLoop::WaitUntilNoSessions(absl::Duration timeout) {
  absl::MutexLock lock(&sessions_mutex_);
  return sessions_mutex_.AwaitWithTimeout(absl::Condition(this, &CoordinatorLoop::no_sessions), timeout);
}

void CoordinatorLoop::Step(const coordinator::CoordinatorEvent& event) {
  absl::MutexLock lock(&mutex_);
  StepLocked(event);
}

void CoordinatorLoop::StepLocked(const coordinator::CoordinatorEvent& event) {
  if (abandoned_) return;
  for (coordinator::Output& output : coordinator_.Step(event, clock_.MonotonicSeconds()))
    outputs_.push_back(std::move(output));
  if (outputs_.size() <= most_outputs_ || std::exchange(overflowed_, true)) return;
  const auto slow = absl::DeadlineExceededError("the coordinator's storage does not answer (--state-dir)");
  for (coordinator::Output& output : coordinator_.Step(coordinator::PersistFailed{slow}, clock_.MonotonicSeconds())) {
    outputs_.push_back(std::move(output));
  }
}

absl::Status CoordinatorLoop::CarryOut(coordinator::Output& output) {
  Log(output);
  return std::visit([this](auto& action) { return Do(action); }, output.action);
}

absl::Status CoordinatorLoop::Do(coordinator::SendTo& send) {
  PassKillPoints(*send.message);
  if (send.message->has_assignment()) GiveKeyAndTrace(send);
  {
    absl::MutexLock lock(&sessions_mutex_);
    const auto session = sessions_.find(send.member);
    if (session == sessions_.end()) return absl::OkStatus();
    lent_ = session->second.sink;
  }
  lent_->Send(std::move(send.message));
  absl::MutexLock lock(&sessions_mutex_);
  lent_ = nullptr;
  return absl::OkStatus();
}

// Called after the message was logged, so that no log has the key.
void CoordinatorLoop::GiveKeyAndTrace(coordinator::SendTo& send) {
  if (view_key_.empty() || send.message->generation() != view_key_generation_) {
    view_key_ = MakeToken();
    view_key_generation_ = send.message->generation();
    SetTrace(NewTraceId());
  }
  auto message = std::make_shared<v1::CoordinatorMessage>(*send.message);
  message->mutable_assignment()->set_collective_key(view_key_);
  message->mutable_assignment()->set_trace_id(trace_id());
  send.message = std::move(message);
}

absl::Status CoordinatorLoop::Do(coordinator::WriteManifest& write) {
  ZF_KILL_POINT("coordinator/manifest-due");
  absl::MutexLock lock(&mutex_);
  saves_.push_back(std::move(write));
  return absl::OkStatus();
}

absl::Status CoordinatorLoop::Do(coordinator::DiscardSave& discard) {
  absl::MutexLock lock(&mutex_);
  saves_.push_back(discard);
  return absl::OkStatus();
}

absl::Status CoordinatorLoop::Do(coordinator::VerifyCheckpoint& verify) {
  absl::MutexLock lock(&mutex_);
  saves_.push_back(std::move(verify));
  return absl::OkStatus();
}

absl::Status CoordinatorLoop::Do(coordinator::PublishEvent& publish) {
  publish.event.set_unix_seconds(absl::ToDoubleSeconds(clock_.Now() - absl::UnixEpoch()));
  events_.Publish(std::move(publish.event));
  return absl::OkStatus();
}

// Retries: a directory that was removed during the write is created again by the next one, and a full disk may have
// room again. A write that hangs is not retried.
absl::Status CoordinatorLoop::Do(coordinator::PersistState& persist) {
  const auto save = [&] {
    return storage_calls_.Run(absl::StrCat("the write of ", hooks_.state_path),
                              [this, state = persist.state] { return hooks_.persist(state); });
  };
  absl::Status saved = save();
  if (!saved.ok()) log_.Push(LogLevel::kWarning, absl::StrCat("the state is not saved yet: ", saved.message()));
  const absl::Time deadline = absl::Now() + hooks_.persist_patience;
  while (!saved.ok() && !absl::IsDataLoss(saved) && absl::Now() < deadline) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(this, &CoordinatorLoop::giving_up), kPersistPause)) break;
    }
    saved = save();
  }
  return saved;
}

absl::Status CoordinatorLoop::Do(coordinator::SetAside& aside) {
  return storage_calls_.Run(absl::StrCat("the renaming of ", aside.path),
                            [this, path = aside.path] { return hooks_.set_aside(path); });
}

// The storing thread writes it, not this one: the next view's assignments wait behind it, and a large fleet's records
// are megabytes.
absl::Status CoordinatorLoop::Do(coordinator::KeepFlight& keep) {
  absl::MutexLock lock(&mutex_);
  std::erase_if(saves_, [](const Save& save) { return std::holds_alternative<coordinator::KeepFlight>(save); });
  saves_.push_back(std::move(keep));
  return absl::OkStatus();
}

absl::Status CoordinatorLoop::Do(coordinator::CloseSession& close) {
  absl::MutexLock lock(&sessions_mutex_);
  auto session = sessions_.find(close.member);
  if (session != sessions_.end()) session->second.sink->Close();
  return absl::OkStatus();
}

absl::Status CoordinatorLoop::Do(coordinator::BreakSession& broken) {
  absl::MutexLock lock(&sessions_mutex_);
  auto session = sessions_.find(broken.member);
  if (session != sessions_.end()) {
    session->second.sink->Refuse(absl::UnavailableError("it has heard nobody, and this worker is to connect again"));
  }
  return absl::OkStatus();
}

absl::Status CoordinatorLoop::Do(coordinator::EndRun& end) {
  CloseAll(end.status);
  return absl::OkStatus();
}

// Outputs that depend on a state that is not durable are dropped, the run's completion included. A run that has failed
// already keeps its reason.
void CoordinatorLoop::OnStorageFailure(const absl::Status& status) {
  if (coordinator_.fleet().phase == coordinator::Phase::kFailed) {
    std::erase_if(outputs_, RestsOnState);
    return;
  }
  outputs_.clear();
  StepLocked(coordinator::PersistFailed{status});
}

void CoordinatorLoop::CloseAll(const absl::Status& end) {
  {
    absl::MutexLock lock(&mutex_);
    Observe();
  }
  events_.End();
  absl::MutexLock lock(&sessions_mutex_);
  if (!end_) end_ = end;
  for (auto& [member, session] : sessions_) session.sink->Close();
}

void CoordinatorLoop::TellOfStorage(const std::string& line) {
  log_.Push(LogLevel::kWarning, line);
  v1::Event event;
  event.mutable_notice()->set_message(line);
  events_.Publish(std::move(event));
}

void CoordinatorLoop::RefuseTheSilent() {
  const double now = clock_.MonotonicSeconds();
  absl::MutexLock lock(&sessions_mutex_);
  if (silent_ == 0) return;
  for (auto& [member, session] : sessions_) {
    if (session.has_spoken || now - session.opened <= kHelloSeconds) continue;
    session.sink->Refuse(absl::DeadlineExceededError(absl::StrCat("no Hello within ", kHelloSeconds, " s")));
  }
}

void CoordinatorLoop::Log(const coordinator::Output& output) {
  const LogLevel level = LevelOf(output, is_large_);
  if (!hooks_.logs(level)) return;
  std::string line = coordinator::Describe(output);
  if (line.size() > kMostLogLine) {
    const std::string shown = CutText(line, kMostLogLine);
    line = absl::StrCat(shown, "... (", line.size() - shown.size(), " bytes more)");
  }
  log_.Push(level, std::move(line));
}

void CoordinatorLoop::Observe() { hooks_.observe(coordinator_.fleet(), clock_.MonotonicSeconds()); }

void CoordinatorLoop::TickUntilShutDown() {
  absl::MutexLock lock(&mutex_);
  while (!mutex_.AwaitWithTimeout(absl::Condition(&shutting_down_), kTick)) {
    const int64_t stored = hooks_.stored_bytes();
    if (std::exchange(stored_bytes_, stored) != stored) StepLocked(coordinator::StorageProgress());
    StepLocked(coordinator::Tick());
    Observe();
    mutex_.Unlock();
    RefuseTheSilent();
    storage_calls_.Tick();
    mutex_.Lock();
  }
}

void CoordinatorLoop::CarryOutUntilShutDown() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    mutex_.Await(absl::Condition(this, &CoordinatorLoop::output_due));
    if (outputs_.empty()) return;  // shutting down
    // Takes all outputs at once, so that the messages to a large fleet are sent without the lock that its answers need.
    std::deque<coordinator::Output> taken = std::exchange(outputs_, {});
    mutex_.Unlock();
    absl::Status status;
    while (status.ok() && !taken.empty()) {
      coordinator::Output output = std::move(taken.front());
      taken.pop_front();
      status = CarryOut(output);
    }
    mutex_.Lock();
    if (status.ok()) continue;
    outputs_.insert(outputs_.begin(), std::make_move_iterator(taken.begin()), std::make_move_iterator(taken.end()));
    OnStorageFailure(status);
  }
}

std::optional<coordinator::CoordinatorEvent> CoordinatorLoop::Store(const coordinator::WriteManifest& write) {
  const absl::StatusOr<coordinator::CommittedStep> committed = hooks_.commit(write.manifest);
  return coordinator::ManifestWritten{write.manifest.step(), committed.status(),
                                      committed.ok() ? *committed : coordinator::CommittedStep(),
                                      static_cast<uint64_t>(write.manifest.generation())};
}

std::optional<coordinator::CoordinatorEvent> CoordinatorLoop::Store(const coordinator::DiscardSave& discard) {
  hooks_.discard(discard);
  return coordinator::SaveDiscarded{discard.step, discard.generation};
}

std::optional<coordinator::CoordinatorEvent> CoordinatorLoop::Store(const coordinator::VerifyCheckpoint& verify) {
  return coordinator::CheckpointVerified{verify.path, hooks_.verify(verify)};
}

std::optional<coordinator::CoordinatorEvent> CoordinatorLoop::Store(const coordinator::KeepFlight& keep) {
  const absl::Status kept = hooks_.keep_flight(keep.flight);
  if (!kept.ok()) log_.Push(LogLevel::kWarning, absl::StrCat("flight records: ", kept.message()));
  return std::nullopt;
}

void CoordinatorLoop::StoreUntilShutDown() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    mutex_.Await(absl::Condition(this, &CoordinatorLoop::save_due));
    if (saves_.empty()) return;  // shutting down
    const Save save = std::move(saves_.front());
    saves_.pop_front();
    if (shutting_down_ && !std::holds_alternative<coordinator::KeepFlight>(save)) continue;
    mutex_.Unlock();
    const auto stored = std::visit([this](const auto& what) { return Store(what); }, save);
    if (stored) ZF_KILL_POINT("coordinator/stored");
    mutex_.Lock();
    if (stored) StepLocked(*stored);
  }
}

}  // namespace zerofleet::services
