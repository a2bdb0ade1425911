// Feeding the coordinator and carrying out what it wants; see coordinator_loop.h.
#include "services/coordinator_loop.h"

#include <utility>
#include <vector>

#include "coordinator/status_view.h"

namespace zerofleet {
namespace {
constexpr absl::Duration kTick = absl::Milliseconds(100);
}  // namespace

CoordinatorLoop::CoordinatorLoop(FleetParameters parameters, CoordinatorHooks hooks, const Clock& clock)
    : hooks_(std::move(hooks)), clock_(clock), coordinator_(std::move(parameters), clock.MonotonicSeconds()) {}

CoordinatorLoop::~CoordinatorLoop() {
  {
    absl::MutexLock lock(&mutex_);
    shutting_down_ = true;
  }
  if (ticker_.joinable()) ticker_.join();
  if (committer_.joinable()) committer_.join();
}

void CoordinatorLoop::StartThreads() {
  ticker_ = std::thread([this] { TickUntilShutDown(); });
  committer_ = std::thread([this] { CommitUntilShutDown(); });
}

MemberId CoordinatorLoop::OpenSession(SessionSink* sink) {
  absl::MutexLock lock(&mutex_);
  sessions_[++last_member_] = sink;
  if (end_) sink->Close();  // came after the run
  return last_member_;
}

void CoordinatorLoop::Receive(MemberId member, v1::WorkerMessage message) {
  Step(MessageReceived{member, std::move(message)});
}

void CoordinatorLoop::SessionEnded(MemberId member, const std::string& cause) { Step(SessionClosed{member, cause}); }

void CoordinatorLoop::ForgetSession(MemberId member) {
  absl::MutexLock lock(&mutex_);
  sessions_.erase(member);
}

void CoordinatorLoop::Stop(const std::string& reason) { Step(StopAsked{reason}); }

v1::GetStatusResponse CoordinatorLoop::GetStatus() {
  absl::MutexLock lock(&mutex_);
  return StatusOf(coordinator_.fleet(), clock_.MonotonicSeconds());
}

absl::Status CoordinatorLoop::WaitForEnd() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &CoordinatorLoop::ended));
  return *end_;
}

bool CoordinatorLoop::WaitUntilNoSessions(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(this, &CoordinatorLoop::no_sessions), timeout);
}

void CoordinatorLoop::Step(const CoordinatorEvent& event) {
  absl::MutexLock lock(&mutex_);
  StepLocked(event);
}

void CoordinatorLoop::StepLocked(const CoordinatorEvent& event) {
  absl::Status status = CarryOut(coordinator_.Step(event, clock_.MonotonicSeconds()));
  if (status.ok()) return;
  // The answer to a failed PersistState holds no PersistState itself.
  CarryOut(coordinator_.Step(PersistFailed{status}, clock_.MonotonicSeconds())).IgnoreError();
}

absl::Status CoordinatorLoop::CarryOut(std::vector<Output> outputs) {
  for (Output& output : outputs) {
    hooks_.log(Describe(output));
    if (auto* send = std::get_if<SendTo>(&output.action)) {
      auto session = sessions_.find(send->member);
      if (session != sessions_.end()) session->second->Send(std::move(send->message));
    } else if (auto* close = std::get_if<CloseSession>(&output.action)) {
      auto session = sessions_.find(close->member);
      if (session != sessions_.end()) session->second->Close();
    } else if (auto* write = std::get_if<WriteManifest>(&output.action)) {
      commits_.push_back(std::move(write->manifest));
    } else if (auto* publish = std::get_if<PublishEvent>(&output.action)) {
      events_.Publish(std::move(publish->event));
    } else if (auto* persist = std::get_if<PersistState>(&output.action)) {
      absl::Status status = hooks_.persist(persist->state);
      if (!status.ok()) return status;
    } else if (auto* aside = std::get_if<SetAside>(&output.action)) {
      absl::Status status = hooks_.set_aside(aside->path);
      if (!status.ok()) return status;
    } else if (auto* end = std::get_if<EndRun>(&output.action)) {
      Observe();
      end_ = end->status;
      events_.End();
      for (auto& [member, sink] : sessions_) sink->Close();
    }
  }
  return absl::OkStatus();
}

void CoordinatorLoop::Observe() { hooks_.observe(coordinator_.fleet(), clock_.MonotonicSeconds()); }

void CoordinatorLoop::TickUntilShutDown() {
  absl::MutexLock lock(&mutex_);
  while (!mutex_.AwaitWithTimeout(absl::Condition(&shutting_down_), kTick)) {
    StepLocked(Tick());
    Observe();
  }
}

void CoordinatorLoop::CommitUntilShutDown() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    mutex_.Await(absl::Condition(this, &CoordinatorLoop::commit_due));
    if (shutting_down_) return;
    v1::CheckpointManifest manifest = std::move(commits_.front());
    commits_.pop_front();
    mutex_.Unlock();
    absl::StatusOr<std::string> path = hooks_.commit(manifest);
    mutex_.Lock();
    StepLocked(ManifestWritten{manifest.step(), path.status(), path.ok() ? *path : ""});
  }
}

}  // namespace zerofleet
