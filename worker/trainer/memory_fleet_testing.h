// The real coordinator core with sessions in memory: a fleet as a worker needs it, without sockets.
#ifndef ZEROFLEET_WORKER_TRAINER_MEMORY_FLEET_TESTING_H_
#define ZEROFLEET_WORKER_TRAINER_MEMORY_FLEET_TESTING_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/file.h"
#include "coordinator/coordinator.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/commit.h"
#include "worker/trainer/fleet_session.h"
#include "worker/trainer/fleet_state.h"

namespace zerofleet {

class MemoryFleet {
 public:
  // `clock` is used by the coordinator only.
  explicit MemoryFleet(FleetParameters parameters, const Clock& clock = Clock::Real())
      : clock_(clock), coordinator_(WithTrainingState(std::move(parameters)), clock.MonotonicSeconds()) {
    absl::MutexLock lock(&mutex_);
    CreateDirectories(coordinator_.fleet().parameters.config.checkpoint().dir()).IgnoreError();
  }

  class Session : public FleetSession {
   public:
    Session(MemoryFleet& fleet, MemberId id) : fleet_(fleet), id_(id) {}
    ~Session() override {
      fleet_.SetHeartbeat(id_, nullptr);
      fleet_.Feed(SessionClosed{id_, "left"});
    }

    absl::Status Send(v1::WorkerMessage message) override {
      message.set_generation(fleet_.GenerationOf(id_));
      fleet_.Feed(MessageReceived{id_, std::move(message)});
      return absl::OkStatus();
    }
    absl::StatusOr<v1::CoordinatorMessage> Receive(double timeout_seconds) override {
      return fleet_.Take(id_, timeout_seconds);
    }
    void StartHeartbeats(std::function<v1::Heartbeat()> heartbeat) override {
      fleet_.SetHeartbeat(id_, std::move(heartbeat));
    }
    void OnLost(std::function<void(absl::Status)>) override {}

   private:
    MemoryFleet& fleet_;
    const MemberId id_;
  };

  std::unique_ptr<Session> Connect() {
    absl::MutexLock lock(&mutex_);
    return std::make_unique<Session>(*this, ++last_id_);
  }

  void Feed(const CoordinatorEvent& event) {
    absl::MutexLock lock(&mutex_);
    std::deque<CoordinatorEvent> events = {event};
    while (!events.empty()) {
      std::vector<Output> outputs = coordinator_.Step(events.front(), clock_.MonotonicSeconds());
      events.pop_front();
      for (Output& output : outputs) Carry(output, events);
    }
  }

  // Simulates the passing of time: a heartbeat from every session that sends them, then a tick.
  void Beat() {
    {
      absl::MutexLock lock(&beats_mutex_);
      for (const auto& [id, heartbeat] : heartbeats_) {
        v1::WorkerMessage message;
        *message.mutable_heartbeat() = heartbeat();
        message.set_generation(GenerationOf(id));
        Feed(MessageReceived{id, std::move(message)});
      }
    }
    Feed(Tick());
  }

  // Whether rank 0 has reported `step` within a generous time.
  bool WaitForStep(int64_t step) {
    absl::MutexLock lock(&mutex_);
    auto reported = [this, step]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return coordinator_.fleet().last_step_event.step() >= step || ended_;
    };
    return mutex_.AwaitWithTimeout(absl::Condition(&reported), absl::Seconds(60)) && !ended_;
  }

  std::vector<v1::Event> events() {
    absl::MutexLock lock(&mutex_);
    return published_;
  }
  std::optional<absl::Status> ended() {
    absl::MutexLock lock(&mutex_);
    return ended_;
  }

 private:
  static FleetParameters WithTrainingState(FleetParameters parameters) {
    ZF_CHECK(AddTrainingState(&parameters).ok());
    return parameters;
  }

  void SetHeartbeat(MemberId id, std::function<v1::Heartbeat()> heartbeat) {
    absl::MutexLock lock(&beats_mutex_);
    if (heartbeat == nullptr) heartbeats_.erase(id);
    if (heartbeat != nullptr) heartbeats_[id] = std::move(heartbeat);
  }

  void Carry(Output& output, std::deque<CoordinatorEvent>& events) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (auto* send = std::get_if<SendTo>(&output.action)) inboxes_[send->member].push_back(std::move(send->message));
    if (auto* publish = std::get_if<PublishEvent>(&output.action)) published_.push_back(publish->event);
    if (auto* end = std::get_if<EndRun>(&output.action)) ended_ = end->status;
    if (auto* write = std::get_if<WriteManifest>(&output.action)) {
      std::string path = StepDirectory(write->manifest.config().checkpoint().dir(), write->manifest.step());
      events.push_back(ManifestWritten{write->manifest.step(), CommitCheckpoint(path, write->manifest), {path, {}}});
    }
  }

  uint64_t GenerationOf(MemberId id) {
    absl::MutexLock lock(&mutex_);
    return generations_[id];
  }

  absl::StatusOr<v1::CoordinatorMessage> Take(MemberId id, double timeout_seconds) {
    absl::MutexLock lock(&mutex_);
    auto arrived = [this, id]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !inboxes_[id].empty() || ended_; };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&arrived), absl::Seconds(timeout_seconds))) {
      return absl::DeadlineExceededError("nothing yet");
    }
    if (inboxes_[id].empty()) return absl::UnavailableError("the session has ended");
    v1::CoordinatorMessage message = std::move(inboxes_[id].front());
    inboxes_[id].pop_front();
    generations_[id] = message.generation();
    if (message.has_refused()) {
      return absl::Status(static_cast<absl::StatusCode>(message.refused().code()), message.refused().message());
    }
    return message;
  }

  const Clock& clock_;
  absl::Mutex beats_mutex_;  // taken before mutex_
  std::map<MemberId, std::function<v1::Heartbeat()>> heartbeats_ ABSL_GUARDED_BY(beats_mutex_);
  absl::Mutex mutex_;
  Coordinator coordinator_ ABSL_GUARDED_BY(mutex_);
  std::map<MemberId, std::deque<v1::CoordinatorMessage>> inboxes_ ABSL_GUARDED_BY(mutex_);
  std::map<MemberId, uint64_t> generations_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::Event> published_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> ended_ ABSL_GUARDED_BY(mutex_);
  MemberId last_id_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_TRAINER_MEMORY_FLEET_TESTING_H_
