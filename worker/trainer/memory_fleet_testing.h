// The real coordinator core with sessions in memory: a fleet as a worker needs it, without sockets.
#ifndef ZEROFLEET_WORKER_TRAINER_MEMORY_FLEET_TESTING_H_
#define ZEROFLEET_WORKER_TRAINER_MEMORY_FLEET_TESTING_H_

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/file.h"
#include "coordinator/coordinator.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/commit.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/shard_reader.h"
#include "worker/trainer/fleet_session.h"
#include "worker/trainer/fleet_state.h"

namespace zerofleet::trainer {

class MemoryFleet {
 public:
  // `clock` is used by the coordinator only.
  explicit MemoryFleet(coordinator::FleetParameters parameters, const Clock& clock = Clock::Real())
      : clock_(clock), coordinator_(WithTrainingState(std::move(parameters)), clock.MonotonicSeconds()) {
    absl::MutexLock lock(&mutex_);
    CreateDirectories(coordinator_.fleet().parameters.config.checkpoint().dir()).IgnoreError();
  }

  class Session : public FleetSession {
   public:
    Session(MemoryFleet& fleet, coordinator::MemberId id) : fleet_(fleet), id_(id) {}
    ~Session() override {
      fleet_.SetHeartbeat(id_, nullptr);
      fleet_.Forget(id_);
      if (!broken_) fleet_.Feed(coordinator::SessionClosed{id_, "left"});
    }

    // As if the connection broke: nothing more arrives on either side.
    void Break() {
      if (broken_.exchange(true)) return;
      fleet_.SetHeartbeat(id_, nullptr);
      fleet_.TellLost(id_);
      fleet_.Feed(coordinator::SessionClosed{id_, "broke"});
    }

    absl::Status Send(v1::WorkerMessage message) override {
      if (broken_) return absl::UnavailableError("the session is broken");
      if (message.generation() == 0) message.set_generation(fleet_.GenerationOf(id_));
      fleet_.Feed(coordinator::MessageReceived{id_, std::move(message)});
      return absl::OkStatus();
    }
    absl::StatusOr<v1::CoordinatorMessage> Receive(double timeout_seconds) override {
      if (broken_) return absl::UnavailableError("the session is broken");
      return fleet_.Take(id_, timeout_seconds);
    }
    void StartHeartbeats(std::function<v1::Heartbeat()> heartbeat) override {
      fleet_.SetHeartbeat(id_, std::move(heartbeat));
    }
    void OnRegroup(std::function<void(uint64_t generation, absl::Status reason)> handler) override {
      absl::MutexLock lock(&fleet_.mutex_);
      fleet_.on_regroup_[id_] = std::move(handler);
    }
    void OnLost(std::function<void(absl::Status)> handler) override {
      absl::MutexLock lock(&fleet_.mutex_);
      fleet_.on_lost_[id_] = std::move(handler);
    }

   private:
    MemoryFleet& fleet_;
    const coordinator::MemberId id_;
    std::atomic<bool> broken_ = false;
  };

  std::unique_ptr<Session> Connect() {
    absl::MutexLock lock(&mutex_);
    return std::make_unique<Session>(*this, ++last_id_);
  }

  void Feed(const coordinator::CoordinatorEvent& event) {
    absl::MutexLock lock(&mutex_);
    std::deque<coordinator::CoordinatorEvent> events = {event};
    while (!events.empty()) {
      std::vector<coordinator::Output> outputs = coordinator_.Step(events.front(), clock_.MonotonicSeconds());
      events.pop_front();
      for (coordinator::Output& output : outputs) Carry(output, events);
    }
  }

  // Called with each save that failed, before its files are removed. Set before the fleet runs.
  std::function<void(const coordinator::DiscardSave&)> on_discard = [](const coordinator::DiscardSave&) {};

  // Simulates the passing of time: a heartbeat from every session that sends them, then a tick.
  void Beat() {
    {
      absl::MutexLock lock(&beats_mutex_);
      for (const auto& [id, heartbeat] : heartbeats_) {
        v1::WorkerMessage message;
        *message.mutable_heartbeat() = heartbeat();
        message.set_generation(GenerationOf(id));
        Feed(coordinator::MessageReceived{id, std::move(message)});
      }
    }
    Feed(coordinator::Tick());
  }

  // Waits until rank 0 has reported `step` or the run has ended; returns whether the step was reported.
  bool WaitForStep(int64_t step) {
    absl::MutexLock lock(&mutex_);
    auto reported = [this, step]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return coordinator_.fleet().training.last_step_event.step() >= step || ended_;
    };
    mutex_.Await(absl::Condition(&reported));
    return !ended_;
  }

  // Waits until a rank has reported its shard of `step`, which is not committed yet, or the run has ended; returns
  // whether the shard was reported.
  bool WaitForShard(int64_t step, int rank) {
    absl::MutexLock lock(&mutex_);
    auto told = [this, step, rank]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      const auto& commits = coordinator_.fleet().saving.commits;
      const auto commit = commits.find(step);
      return (commit != commits.end() && commit->second.shards.contains(rank)) || ended_;
    };
    mutex_.Await(absl::Condition(&told));
    return !ended_;
  }

  // Waits until a worker was lost and may be replaced, the run has ended, or `limit` is over; returns whether one was
  // lost.
  bool WaitForLoss(absl::Duration limit = absl::InfiniteDuration()) {
    absl::MutexLock lock(&mutex_);
    const auto lost = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return std::any_of(published_.begin(), published_.end(), [](const v1::Event& event) { return event.has_lost(); });
    };
    auto known = [this, &lost]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return lost() || ended_; };
    mutex_.AwaitWithTimeout(absl::Condition(&known), limit);
    return lost();
  }

  int64_t LastCommit() {
    absl::MutexLock lock(&mutex_);
    return coordinator_.fleet().saving.last_committed_step;
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
  static coordinator::FleetParameters WithTrainingState(coordinator::FleetParameters parameters) {
    ZF_CHECK(AddTrainingState(&parameters).ok());
    return parameters;
  }

  void Forget(coordinator::MemberId id) {
    absl::MutexLock lock(&mutex_);
    on_regroup_.erase(id);
    on_lost_.erase(id);
  }

  void TellLost(coordinator::MemberId id) {
    absl::MutexLock lock(&mutex_);
    if (on_lost_.contains(id)) on_lost_[id](absl::UnavailableError("the session is broken"));
  }

  void SetHeartbeat(coordinator::MemberId id, std::function<v1::Heartbeat()> heartbeat) {
    absl::MutexLock lock(&beats_mutex_);
    if (heartbeat == nullptr) heartbeats_.erase(id);
    if (heartbeat != nullptr) heartbeats_[id] = std::move(heartbeat);
  }

  void Carry(coordinator::Output& output, std::deque<coordinator::CoordinatorEvent>& events)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (auto* send = std::get_if<coordinator::SendTo>(&output.action);
        send != nullptr && send->message->has_regroup()) {
      const auto handler = on_regroup_.find(send->member);
      if (handler != on_regroup_.end())
        handler->second(send->message->generation(), absl::AbortedError(send->message->regroup().reason()));
    }
    if (auto* send = std::get_if<coordinator::SendTo>(&output.action)) inboxes_[send->member].push_back(*send->message);
    if (auto* publish = std::get_if<coordinator::PublishEvent>(&output.action)) published_.push_back(publish->event);
    if (auto* end = std::get_if<coordinator::EndRun>(&output.action)) {
      ended_ = end->status;
      if (end->status.ok()) return;
      for (const auto& [member, handler] : on_lost_) handler(end->status);
    }
    if (auto* discard = std::get_if<coordinator::DiscardSave>(&output.action)) {
      on_discard(*discard);
      const std::string dir = coordinator_.fleet().parameters.config.checkpoint().dir();
      const std::string step_dir = checkpoint::StepDirectory(dir, discard->step);
      checkpoint::RemoveCheckpointFiles(checkpoint::PartialDirectory(step_dir, discard->generation)).IgnoreError();
      events.push_back(coordinator::SaveDiscarded{discard->step, discard->generation});
    }
    if (auto* write = std::get_if<coordinator::WriteManifest>(&output.action)) {
      std::string path = checkpoint::StepDirectory(write->manifest.config().checkpoint().dir(), write->manifest.step());
      events.push_back(coordinator::ManifestWritten{
          write->manifest.step(),
          checkpoint::CommitCheckpoint(path, write->manifest),
          {path, {}, checkpoint::ManifestDigest(checkpoint::ManifestText(write->manifest))},
          static_cast<uint64_t>(write->manifest.generation())});
    }
    if (auto* verify = std::get_if<coordinator::VerifyCheckpoint>(&output.action)) {
      const absl::Status whole = checkpoint::VerifyCheckpoint(verify->path, {verify->step, verify->digest});
      events.push_back(coordinator::CheckpointVerified{verify->path, whole});
    }
  }

  uint64_t GenerationOf(coordinator::MemberId id) {
    absl::MutexLock lock(&mutex_);
    return generations_[id];
  }

  absl::StatusOr<v1::CoordinatorMessage> Take(coordinator::MemberId id, double timeout_seconds) {
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
  std::map<coordinator::MemberId, std::function<v1::Heartbeat()>> heartbeats_ ABSL_GUARDED_BY(beats_mutex_);
  absl::Mutex mutex_;
  coordinator::Coordinator coordinator_ ABSL_GUARDED_BY(mutex_);
  std::map<coordinator::MemberId, std::deque<v1::CoordinatorMessage>> inboxes_ ABSL_GUARDED_BY(mutex_);
  std::map<coordinator::MemberId, std::function<void(uint64_t, absl::Status)>> on_regroup_ ABSL_GUARDED_BY(mutex_);
  std::map<coordinator::MemberId, std::function<void(absl::Status)>> on_lost_ ABSL_GUARDED_BY(mutex_);
  std::map<coordinator::MemberId, uint64_t> generations_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::Event> published_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> ended_ ABSL_GUARDED_BY(mutex_);
  coordinator::MemberId last_id_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_MEMORY_FLEET_TESTING_H_
