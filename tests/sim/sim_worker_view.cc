// A worker in its views: entering, loading, training, saving, leaving; see sim_worker.h.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/sim_worker.h"

namespace zerofleet::sim {

void SimWorker::MeetOthers() {
  stage_ = Stage::kMeeting;
  v1::WorkerMessage message;
  message.mutable_ready()->set_config_digest("same");
  Send(message);
}

void SimWorker::Enter(const v1::Assignment& assignment) {
  stage_ = Stage::kEntering;
  place_ = assignment;
  view_generation_ = generation_;
  const auto entered = [this, view = ++views_](const absl::Status& status, bool) {
    if (view != views_) return;
    // It has no groups yet to wait in for Regroup.
    if (!status.ok()) return FailItself(status);
    stage_ = Stage::kLoading;
    v1::WorkerMessage message;
    message.mutable_entered()->set_layout_digest("same");
    Send(message);
    HandleWaiting();
  };
  LaterInView(at_.world.Uniform(0.01, 0.2), [this, entered] {
    at_.collectives.Arrive(
        view_generation_, place_.rank(), place_.world_size(),
        {0, 0, false, [this, entered](auto status, bool stop) { Do([=] { entered(status, stop); }); }});
  });
}

void SimWorker::Load(const std::string& path) {
  BusyFor(at_.world.Uniform(0.05, 0.8), [this, path] {
    const absl::StatusOr<uint64_t> state = at_.disk.Load(path);
    v1::WorkerMessage message;
    v1::LoadResult& result = *message.mutable_load_result();
    result.set_ok(state.ok());
    result.set_path(path);
    if (state.ok()) {
      state_ = *state;
    } else {
      result.mutable_failure()->set_code(static_cast<int>(state.status().code()));
      result.mutable_failure()->set_message(std::string(state.status().message()));
    }
    Send(message);
  });
}

bool SimWorker::SavesAfter(int64_t step) const {
  return step == at_.plan.config.steps() || step % at_.plan.save_every == 0;
}

void SimWorker::BeginStep() {
  if (step_ == at_.plan.config.steps() || stopping_) return AfterSteps();
  LaterInView(at_.world.Uniform(0.05, 0.4), [this] {
    if (hangs_next_ && place_.world_size() > 1) {
      at_.world.Trace("pid ", pid_, " hangs");
      hung_ = busy_ = true;
      return;
    }
    arrived_ = step_ + 1;
    at_.collectives.Arrive(view_generation_, place_.rank(), place_.world_size(),
                           {step_ + 1, state_, asked_to_stop_, [this, view = views_](auto status, bool stop) {
                              Do([=, this] {
                                if (view == views_) StepDone(status, stop);
                              });
                            }});
  });
}

void SimWorker::StepDone(const absl::Status& status, bool stop) {
  if (!status.ok()) return OnViewFailed(status);
  state_ = HashAfter(state_, ++step_);
  stopping_ = stopping_ || stop;
  if (place_.rank() == 0) {
    v1::WorkerMessage message;
    message.mutable_event()->mutable_step()->set_step(step_);
    message.mutable_event()->mutable_step()->set_loss(LossOf(state_));
    Send(message);
  }
  if (SavesAfter(step_) || stopping_) return Save([this] { BeginStep(); });
  BeginStep();
}

void SimWorker::AfterSteps() {
  const auto finish = [this] {
    AwaitCommit(saved_, [this] {
      stage_ = Stage::kFinished;
      v1::WorkerMessage message;
      message.mutable_finished()->set_step(step_);
      message.mutable_finished()->set_stopped(stopping_ && step_ < at_.plan.config.steps());
      Send(message);
    });
  };
  if (saved_ == step_ || at_.disk.IsCommitted(step_)) return finish();
  Save(finish);
}

// A collective failed: that is no fault of this worker.
void SimWorker::OnViewFailed(const absl::Status& status) {
  SendFailure(status, true);
  ++views_;
  stage_ = Stage::kAwaitingRegroup;
}

void SimWorker::LeaveView() {
  if (view_generation_ != 0) at_.collectives.Break(std::exchange(view_generation_, 0));
  ++views_;
  stage_ = Stage::kMeeting;
  committed_ = saved_ = awaited_ = -1;
  when_committed_ = nullptr;
  BusyFor(at_.world.Uniform(0.02, 0.4), [this] { MeetOthers(); });
}

void SimWorker::AwaitCommit(int64_t step, std::function<void()> then) {
  if (committed_ >= step) return then();
  awaited_ = step;
  when_committed_ = std::move(then);
}

void SimWorker::OnOutcome(const v1::CheckpointOutcome& outcome) {
  if (!outcome.committed()) return FailItself(absl::ResourceExhaustedError(outcome.message()));
  committed_ = std::max(committed_, outcome.step());
  if (when_committed_ && committed_ >= awaited_) std::exchange(when_committed_, nullptr)();
}

// One commit at a time; the shard is written while the next steps are done.
void SimWorker::Save(std::function<void()> then) {
  AwaitCommit(saved_, [this, then = std::move(then)] {
    saved_ = step_;
    WriteShard();
    then();
  });
}

void SimWorker::WriteShard() {
  const uint64_t generation = view_generation_;
  const ShardKey key{step_, generation, place_.rank()};
  v1::ShardWritten shard;
  shard.set_step(step_);
  shard.set_ok(!std::exchange(at_.faults.shard_fails, false));
  v1::CheckpointManifest& manifest = *shard.mutable_manifest();
  manifest.set_step(step_);
  *manifest.mutable_config() = at_.plan.config;
  manifest.set_world_size(place_.world_size());
  manifest.set_team(place_.team());
  manifest.add_tensors()->set_flat_end(kElements);
  shard.mutable_file()->set_rank(place_.rank());
  *shard.mutable_file()->mutable_ranges() = place_.owned();
  at_.disk.BeginShard(key, state_);
  Later(at_.disk.WriteSeconds(), [this, key, generation, shard = std::move(shard)] {
    if (!shard.ok()) return Report(shard, generation);
    at_.disk.CompleteShard(key);
    Later(at_.disk.WriteSeconds(), [this, key, generation, shard] {
      at_.disk.SyncShard(key);
      Report(shard, generation);
    });
  });
}

// Of the view it belongs to, whatever has come meanwhile.
void SimWorker::Report(v1::ShardWritten shard, uint64_t generation) {
  v1::WorkerMessage message;
  message.set_generation(generation);
  *message.mutable_shard_written() = std::move(shard);
  Send(std::move(message));
}

}  // namespace zerofleet::sim
