// A worker's life and its faults; see sim_worker.h. For its views see sim_worker_view.cc.
#include "tests/sim/sim_worker.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/placement.h"

namespace zerofleet::sim {

SimWorker::SimWorker(const Machine& machine, std::string host, int64_t pid)
    : at_(machine),
      host_(std::move(host)),
      pid_(pid),
      session_(at_.world, at_.network,
               {[this](std::function<void()> what) { Do(std::move(what)); }, [this] { HandleWaiting(); },
                [this] { return Heartbeat(); }}) {
  at_.peers[service_address()] = this;
}

void SimWorker::Start(double after_seconds) {
  Later(after_seconds, [this] {
    v1::WorkerMessage message;
    message.mutable_hello()->set_host(host_);
    message.mutable_hello()->set_pid(pid_);
    message.mutable_hello()->set_service_address(service_address());
    message.mutable_hello()->set_incarnation(absl::StrCat("incarnation ", pid_));
    session_.Connect(message);
  });
}

void SimWorker::Kill() {
  if (gone_) return;
  at_.world.Trace("pid ", pid_, " is killed");
  gone_ = true;
  session_.Kill();
  if (view_generation_ != 0) at_.collectives.Break(view_generation_);
}

void SimWorker::Freeze(double seconds) {
  if (gone_ || frozen_) return;
  at_.world.Trace("pid ", pid_, " is stopped for ", seconds, " s");
  frozen_ = true;
  at_.world.After(seconds, [this] {
    frozen_ = false;
    at_.world.Trace("pid ", pid_, " wakes");
    for (const std::function<void()>& what : std::exchange(asleep_, {})) Do(what);
  });
}

void SimWorker::FailItself(const absl::Status& status) {
  Do([this, status] {
    if (!session_.connected()) return Exit();
    Collectives::Outcome lost;
    lost.status = status;
    SendFailure(lost, false);
    Exit();
  });
}

void SimWorker::Signal() {
  Do([this] {
    if (stage_ != Stage::kTraining || std::exchange(asked_to_stop_, true)) return;
    v1::WorkerMessage message;
    message.mutable_stop_requested()->set_signal(15);
    Send(message);
  });
}

void SimWorker::BreakItsView() {
  if (view_generation_ == 0) return;
  at_.world.Trace("two ranks of generation ", view_generation_, " cannot reach each other");
  at_.collectives.Break(view_generation_);
}

void SimWorker::StallWrites(double seconds) {
  at_.world.Trace("what pid ", pid_, " writes stands still for ", seconds, " s");
  writes_stall_until_ = at_.world.now() + seconds;
}

double SimWorker::StalledSeconds() const { return std::max(0.0, writes_stall_until_ - at_.world.now()); }

void SimWorker::Corrupt() {
  at_.world.Trace("pid ", pid_, " computes something else");
  corrupt_ = was_corrupt_ = true;
}

void SimWorker::Do(std::function<void()> what) {
  if (gone_) return;
  if (frozen_) return asleep_.push_back(std::move(what));
  what();
}

void SimWorker::Later(double seconds, std::function<void()> what) {
  at_.world.After(seconds, [this, what = std::move(what)] { Do(what); });
}

void SimWorker::LaterInView(double seconds, std::function<void()> what) {
  Later(seconds, [this, view = views_, what = std::move(what)] {
    if (view == views_) what();
  });
}

void SimWorker::BusyFor(double seconds, std::function<void()> then) {
  busy_ = true;
  Later(seconds, [this, then = std::move(then)] {
    busy_ = false;
    then();
    HandleWaiting();
  });
}

// A worker that hangs does not take messages that have arrived, but still ends with its session.
void SimWorker::HandleWaiting() {
  while (!gone_ && !busy_) {
    const std::optional<v1::CoordinatorMessage> message = session_.Take();
    if (!message) break;
    generation_ = std::max(generation_, message->generation());
    Handle(*message);
  }
  if (session_.over() && (!busy_ || hung_)) Exit();
}

void SimWorker::Handle(const v1::CoordinatorMessage& message) {
  if (message.has_complete()) return Exit();
  if (message.has_regroup()) return LeaveView();
  if (message.has_checkpoint()) return OnOutcome(message.checkpoint());
  if (message.has_welcome()) {
    if (stage_ != Stage::kJoining) return;  // the welcome of a coordinator to which it came back
    session_.StartHeartbeats();
    return BusyFor(at_.world.Uniform(0.05, 1), [this] { MeetOthers(); });
  }
  if (message.has_assignment() && stage_ == Stage::kMeeting) return TakePlace(message.assignment());
  if (message.has_peers() && stage_ == Stage::kAwaitingPeers) return TakePeers(message.peers());
  if (message.has_load() && stage_ == Stage::kLoading) return Load(message.load());
  if (message.has_start() && stage_ == Stage::kLoading) {
    step_ = message.start().step();
    left_out_ = coordinator::SkippedSamples(message.start().skipped());
    if (state_.hash != at_.curriculum.StateAfter(step_))
      at_.world.Violate(absl::StrCat("pid ", pid_, " starts at another step than it loaded"));
    stage_ = Stage::kTraining;
    stopping_ = false;
    arrived_ = step_;
    snapshot_due_ = step_ + 1;
    sending_ = false;
    return BeginStep();
  }
  if (!message.has_stop()) return;
  if (stage_ == Stage::kTraining) {
    asked_to_stop_ = true;
  } else if (stage_ != Stage::kFinished && stage_ != Stage::kAwaitingRegroup) {
    FailItself(absl::CancelledError("stopped before training began"));
  }
}

void SimWorker::Send(v1::WorkerMessage message) { session_.Send(std::move(message)); }

void SimWorker::SendFailure(const Collectives::Outcome& outcome, bool in_view) {
  v1::WorkerMessage message;
  v1::Failure& failure = *message.mutable_failure();
  failure.set_code(static_cast<int>(outcome.status.code()));
  failure.set_message(std::string(outcome.status.message()));
  failure.set_step(step_);
  failure.set_in_view(in_view);
  if (!outcome.disagreement.ranks().empty()) *failure.mutable_disagreement() = outcome.disagreement;
  if (outcome.unreachable) failure.set_unreachable_rank(*outcome.unreachable);
  if (outcome.divergence) *failure.mutable_divergence() = *outcome.divergence;
  Send(message);
}

v1::Heartbeat SimWorker::Heartbeat() const {
  v1::Heartbeat heartbeat;
  heartbeat.set_step(step_);
  // All ranks meet in every group to which they belong.
  for (const char* const group : {coordinator::kDataGroup, coordinator::kTensorGroup}) {
    if (stage_ != Stage::kTraining) break;
    v1::GroupProgress& progress = *heartbeat.add_progress();
    progress.set_group(group);
    progress.set_sequence(static_cast<uint64_t>(std::max(arrived_, step_)));
    progress.set_completed(static_cast<uint64_t>(step_));
    if (at_.plan.tensor() == 1) break;
  }
  if (saving_) *heartbeat.mutable_save() = *saving_;
  return heartbeat;
}

void SimWorker::Exit() {
  if (gone_) return;
  at_.world.Trace("pid ", pid_, " ends");
  session_.Close();
  gone_ = true;
  if (view_generation_ != 0) at_.collectives.Break(view_generation_);
}

}  // namespace zerofleet::sim
