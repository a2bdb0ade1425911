// One reactor for each session, all on gRPC's own threads; see session_swarm.h.
#include "services/session/session_swarm.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/status.h"
#include "coordinator/placement.h"
#include "grpcpp/client_context.h"
#include "services/common/address.h"
#include "services/rpc/grpc_common.h"
#include "zerofleet/v1/coordinator.grpc.pb.h"

namespace zerofleet::services {
namespace {

constexpr int kFlightEntries = 32;     // as many as a group's record has, unless the view is too large for that
constexpr double kSlotSeconds = 0.01;  // heartbeats that are due in the same slot are sent together

v1::Heartbeat HeartbeatOf(uint64_t sequence) {
  v1::Heartbeat heartbeat;
  v1::GroupProgress& progress = *heartbeat.add_progress();
  progress.set_group("data");
  progress.set_sequence(sequence);
  progress.set_completed(sequence);
  progress.set_operation("reduce_scatter");
  progress.set_unit("block11");
  heartbeat.mutable_pace()->set_steps(64);
  heartbeat.mutable_pace()->set_forward(0.1);
  heartbeat.mutable_pace()->set_backward(0.2);
  return heartbeat;
}

v1::FlightRecord FlightOf(int entries) {
  v1::FlightRecord record;
  for (int i = 0; i < entries; ++i) {
    v1::FlightEntry& entry = *record.add_entries();
    entry.set_group("data");
    entry.set_sequence(static_cast<uint64_t>(i) + 1);
    entry.set_operation("reduce_scatter");
    entry.set_unit("block11");
    entry.set_bytes(1 << 20);
    entry.set_seconds(0.01);
    entry.set_finished(true);
  }
  return record;
}

}  // namespace

// What the sessions report.
struct SessionSwarm::Tally {
  struct OfView {
    int assigned = 0, started = 0;
    double last_assigned = 0, last_started = 0;
  };
  void Assigned(uint64_t generation) {
    absl::MutexLock lock(&mutex);
    ++views[generation].assigned;
    views[generation].last_assigned = Clock::Real().MonotonicSeconds();
  }
  void Started(uint64_t generation) {
    absl::MutexLock lock(&mutex);
    ++views[generation].started;
    views[generation].last_started = Clock::Real().MonotonicSeconds();
  }
  void Ended(const absl::Status& status) {
    absl::MutexLock lock(&mutex);
    --open;
    failure.Update(status);
  }

  absl::Mutex mutex;
  std::map<uint64_t, OfView> views ABSL_GUARDED_BY(mutex);  // by generation
  int open ABSL_GUARDED_BY(mutex) = 0;                      // how many sessions are open
  absl::Status failure ABSL_GUARDED_BY(mutex);              // the first session's that ended by itself
};

class SessionSwarm::Session : public grpc::ClientBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage> {
 public:
  Session(v1::Coordinator::Stub& stub, int number, const SessionSwarmOptions& options, Tally& tally)
      : options_(options), tally_(tally) {
    stub.async()->Session(&context_, this);
    AddHold();  // since messages are also written from outside the reactor's callbacks
    v1::WorkerMessage message;
    v1::Hello& hello = *message.mutable_hello();
    hello.set_build_id("bench");
    hello.set_host(absl::StrCat("host-", 100'000 + number / std::max(1, options.sessions_per_host)));
    hello.set_pid(1 + number);
    hello.set_device("cpu");
    hello.set_device_description("no device");
    hello.set_incarnation(absl::StrCat("process ", number));
    hello.set_service_address(absl::StrCat("127.0.0.1:", 1 + number));
    Send(std::move(message));
    StartRead(&received_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      {
        absl::MutexLock lock(&mutex_);
        closed_ = true;
      }
      return RemoveHold();
    }
    Handle(received_);
    StartRead(&received_);
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    queue_.pop_front();
    if (!ok) queue_.clear();
    WriteNext();
  }

  void OnDone(const grpc::Status& status) override {
    absl::Status end = FromGrpc(status, absl::StrCat("the session of rank ", rank()));
    {
      absl::MutexLock lock(&mutex_);
      if (completed_ || broken_) end = absl::OkStatus();
    }
    tally_.Ended(end);  // last, since this session may be destroyed then
  }

  void Break() {
    {
      absl::MutexLock lock(&mutex_);
      broken_ = true;
      rank_ = -1;
    }
    context_.TryCancel();
  }

  bool Beat() {
    absl::MutexLock lock(&mutex_);
    if (closed_ || !queue_.empty()) return false;
    v1::WorkerMessage message;
    *message.mutable_heartbeat() = HeartbeatOf(++beats_);
    SendLocked(std::move(message));
    return true;
  }

  void Finish() {
    absl::MutexLock lock(&mutex_);
    if (!training_ || closed_) return;
    v1::WorkerMessage message;
    message.mutable_finished()->set_step(1);
    message.mutable_finished()->set_stopped(true);
    SendLocked(std::move(message));
  }

  int rank() {
    absl::MutexLock lock(&mutex_);
    return rank_;
  }

 private:
  void Handle(const v1::CoordinatorMessage& received) {
    v1::WorkerMessage answer;
    {
      absl::MutexLock lock(&mutex_);
      generation_ = std::max(generation_, received.generation());
      if (received.has_assignment()) {
        rank_ = received.assignment().rank();
        flight_entries_ = std::min(kFlightEntries, coordinator::MostFlightEntries(received.assignment().world_size()));
      }
      if (received.has_start()) training_ = true;
      if (received.has_regroup()) training_ = false;
      if (received.has_complete()) completed_ = true;
    }
    if (received.has_assignment()) tally_.Assigned(received.generation());
    if (received.has_start()) tally_.Started(received.generation());
    if (received.has_welcome() || received.has_regroup()) {
      v1::Ready& ready = *answer.mutable_ready();
      ready.set_config_digest("bench");
      ready.set_parameters(1);
      ready.set_transport_address(std::string(options_.transport_address_bytes, 'a'));
      if (received.has_regroup()) *ready.mutable_flight() = FlightOf(flight_entries_);
    } else if (received.has_assignment() && options_.peers > 0) {
      const int world = received.assignment().world_size();
      for (int i = 1; i <= std::min(options_.peers, world - 1); ++i) {
        answer.mutable_peers_wanted()->add_ranks((received.assignment().rank() + i) % world);
      }
    } else if (received.has_assignment() || received.has_peers()) {
      answer.mutable_entered();
    } else if (received.has_load()) {
      answer.mutable_load_result()->set_ok(true);
      answer.mutable_load_result()->set_path(received.load().path());
    } else {
      return;
    }
    Send(std::move(answer));
  }

  void Send(v1::WorkerMessage message) {
    absl::MutexLock lock(&mutex_);
    if (!closed_) SendLocked(std::move(message));
  }

  void SendLocked(v1::WorkerMessage message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    message.set_generation(generation_);
    queue_.push_back(std::move(message));
    if (queue_.size() == 1) WriteNext();
  }

  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!queue_.empty() && !closed_) StartWrite(&queue_.front());
  }

  const SessionSwarmOptions& options_;
  Tally& tally_;
  grpc::ClientContext context_;
  v1::CoordinatorMessage received_;
  int flight_entries_ = 0;  // the view's; used by one callback at a time, as `received_` is

  absl::Mutex mutex_;
  std::deque<v1::WorkerMessage> queue_ ABSL_GUARDED_BY(mutex_);  // the front is being written
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0, beats_ ABSL_GUARDED_BY(mutex_) = 0;
  int rank_ ABSL_GUARDED_BY(mutex_) = -1;
  bool training_ ABSL_GUARDED_BY(mutex_) = false, completed_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;  // by Break
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;  // nothing more is written
};

struct SessionSwarm::Impl {
  // Happened: a view above `generation` has all of `members`, or a session has failed.
  struct Awaited {
    Tally* tally;
    int members;
    uint64_t generation;
    bool Happened() const ABSL_NO_THREAD_SAFETY_ANALYSIS {
      const auto& views = tally->views;
      return !tally->failure.ok() ||
             (!views.empty() && views.rbegin()->first > generation && views.rbegin()->second.started >= members);
    }
  };
  bool NoneOpen() const ABSL_NO_THREAD_SAFETY_ANALYSIS { return tally.open == 0; }

  absl::Status Open() {
    if (sessions.size() % static_cast<size_t>(options.sessions_per_connection) == 0) {
      channels.push_back(MakeChannel(address));
      stubs.push_back(v1::Coordinator::NewStub(channels.back()));
    }
    {
      absl::MutexLock lock(&tally.mutex);
      ZF_RETURN_IF_ERROR(tally.failure);
      ++tally.open;
    }
    sessions.push_back(std::make_unique<Session>(*stubs.back(), static_cast<int>(sessions.size()), options, tally));
    return absl::OkStatus();
  }

  SessionSwarmOptions options;
  Address address;
  Tally tally;
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  std::vector<std::unique_ptr<v1::Coordinator::Stub>> stubs;
  std::vector<std::unique_ptr<Session>> sessions;
};

SessionSwarm::SessionSwarm(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

SessionSwarm::~SessionSwarm() {
  for (const auto& session : impl_->sessions) session->Break();
  absl::MutexLock lock(&impl_->tally.mutex);
  impl_->tally.mutex.Await(absl::Condition(impl_.get(), &Impl::NoneOpen));
}

absl::StatusOr<std::unique_ptr<SessionSwarm>> SessionSwarm::Start(const SessionSwarmOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  ZF_ASSIGN_OR_RETURN(impl->address, ParseAddress(options.coordinator));
  const std::shared_ptr<grpc::Channel> first = MakeChannel(impl->address);
  const auto patience = std::chrono::seconds(10);
  if (!first->WaitForConnected(std::chrono::system_clock::now() + patience)) {
    return NoCoordinator(first, options.coordinator, static_cast<double>(patience.count()));
  }
  std::unique_ptr<SessionSwarm> swarm(new SessionSwarm(std::move(impl)));
  for (int i = 0; i < options.sessions; ++i) ZF_RETURN_IF_ERROR(swarm->impl_->Open());
  return swarm;
}

absl::Status SessionSwarm::Add() { return impl_->Open(); }

absl::Status SessionSwarm::Break(int rank) {
  for (const auto& session : impl_->sessions) {
    if (session->rank() != rank) continue;
    session->Break();
    return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat("no session has rank ", rank));
}

absl::StatusOr<SessionSwarm::View> SessionSwarm::AwaitView(int members, uint64_t generation) {
  Tally& tally = impl_->tally;
  const Impl::Awaited awaited{&tally, members, generation};
  absl::MutexLock lock(&tally.mutex);
  if (!tally.mutex.AwaitWithTimeout(absl::Condition(&awaited, &Impl::Awaited::Happened),
                                    absl::Seconds(impl_->options.patience_seconds))) {
    return absl::DeadlineExceededError(absl::StrCat("no view of ", members, " formed in ",
                                                    impl_->options.patience_seconds, " s; the newest, ",
                                                    tally.views.empty() ? 0 : tally.views.rbegin()->first, ", has ",
                                                    tally.views.empty() ? 0 : tally.views.rbegin()->second.assigned));
  }
  ZF_RETURN_IF_ERROR(tally.failure);
  const auto& [formed, view] = *tally.views.rbegin();
  return View{formed, view.last_assigned, view.last_started};
}

double SessionSwarm::Beat(double per_second, double seconds) {
  const double began = Clock::Real().MonotonicSeconds();
  int64_t sent = 0, due = 0;
  size_t next = 0;
  double now = began;
  for (; now < began + seconds; now = Clock::Real().MonotonicSeconds()) {
    for (const auto until = static_cast<int64_t>((now - began) * per_second); due < until; ++due) {
      sent += impl_->sessions[next]->Beat();
      next = (next + 1) % impl_->sessions.size();
    }
    absl::SleepFor(absl::Seconds(kSlotSeconds));
  }
  return static_cast<double>(sent) / (now - began);
}

absl::Status SessionSwarm::Finish() {
  for (const auto& session : impl_->sessions) session->Finish();
  Tally& tally = impl_->tally;
  absl::MutexLock lock(&tally.mutex);
  const bool ended = tally.mutex.AwaitWithTimeout(absl::Condition(impl_.get(), &Impl::NoneOpen),
                                                  absl::Seconds(impl_->options.patience_seconds));
  return ended ? tally.failure : absl::DeadlineExceededError(absl::StrCat(tally.open, " sessions did not end"));
}

}  // namespace zerofleet::services
