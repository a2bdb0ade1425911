// A worker in its views: entering, loading, training, saving, leaving; see sim_worker.h.
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/batch_shares.h"
#include "coordinator/config_digest.h"
#include "coordinator/node_runs.h"
#include "coordinator/placement.h"
#include "tests/sim/sim_worker.h"

namespace zerofleet::sim {

using google::protobuf::util::MessageDifferencer;

void SimWorker::MeetOthers() {
  stage_ = Stage::kMeeting;
  v1::WorkerMessage message;
  message.mutable_ready()->set_config_digest("same");
  for (const Parts* parts : {&own_, &replicas_}) {
    for (const Part& part : *parts) *message.mutable_ready()->add_snapshots() = part.shard;
  }
  Send(message);
}

void SimWorker::TakePlace(const v1::Assignment& assignment) {
  place_ = assignment;
  if (!place_.members().empty()) return Enter();
  stage_ = Stage::kAwaitingPeers;
  AskForAPeer();
}

// Asks for one rank at a time, so that the end of a view can meet any number of pages.
void SimWorker::AskForAPeer() {
  v1::WorkerMessage message;
  message.mutable_peers_wanted()->add_ranks(place_.members_size());
  Send(message);
}

void SimWorker::TakePeers(const v1::Peers& peers) {
  if (peers.members(0).rank() != place_.members_size()) return;  // a message that came twice
  *place_.add_members() = peers.members(0);
  if (place_.members_size() < place_.world_size()) return AskForAPeer();
  v1::Assignment told = place_;
  told.clear_members();
  const absl::StatusOr<std::vector<int>> nodes = coordinator::NodesOf(told);
  if (!nodes.ok()) return at_.world.Violate("I5: the nodes told are not those of the view");
  for (const v1::Member& member : place_.members()) {
    if (member.node() != (*nodes)[member.rank()]) at_.world.Violate("I5: a rank is not on the node that was told");
  }
  Enter();
}

void SimWorker::Enter() {
  stage_ = Stage::kEntering;
  view_generation_ = generation_;
  const auto entered = [this, view = ++views_](const absl::Status& status) {
    if (view != views_) return;
    // It has no groups yet in which it could wait for Regroup.
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
        {.pid = pid_, .done = [this, entered](const auto& outcome) { Do([=] { entered(outcome.status); }); }});
  });
}

void SimWorker::Load(const v1::Load& load) {
  BusyFor(at_.world.Uniform(0.05, 0.8), [this, load] {
    if (load.has_snapshot()) return AnswerLoad(load, Restore(load));
    KeepOnly(nullptr);
    AnswerLoad(load, Read(load.path()));
  });
}

absl::StatusOr<TrainingState> SimWorker::Read(const std::string& path) {
  const absl::Status fault = reads_badly_;
  if (!path.empty() && !reads_badly_for_ever_) reads_badly_ = absl::OkStatus();
  if (path.empty() || fault.ok()) return at_.disk.Load(path);
  return fault;
}

void SimWorker::AnswerLoad(const v1::Load& load, const absl::StatusOr<TrainingState>& state) {
  v1::WorkerMessage message;
  v1::LoadResult& result = *message.mutable_load_result();
  result.set_ok(state.ok());
  result.set_path(load.path());
  if (load.has_snapshot()) *result.mutable_snapshot() = load.snapshot();
  if (state.ok()) {
    state_ = *state;
    result.set_samples_consumed(state_.samples_consumed);
  } else {
    result.mutable_failure()->set_code(static_cast<int>(state.status().code()));
    result.mutable_failure()->set_message(std::string(state.status().message()));
  }
  Send(message);
}

// Restores from its own memory, or from that of a peer that is there and answers.
absl::StatusOr<TrainingState> SimWorker::Restore(const v1::Load& load) {
  Part mine;
  *mine.shard.mutable_snapshot() = load.snapshot();
  mine.shard.set_rank(place_.rank());
  mine.shard.set_world_size(place_.world_size());
  const SimWorker* holder = load.peer().empty() ? this : at_.peers[load.peer()];
  if (holder == nullptr || holder->gone_ || holder->frozen_) return absl::UnavailableError("the peer does not answer");
  const Part* part = holder->Find(mine.shard);
  if (part == nullptr) return absl::NotFoundError("the snapshot is not held");
  mine.state = part->state;
  KeepOnly(&load.snapshot());
  if (own_.empty()) own_.push_back(mine);
  return mine.state;
}

const SimWorker::Part* SimWorker::Find(const v1::SnapshotShard& shard) const {
  for (const Parts* parts : {&own_, &replicas_}) {
    for (const Part& part : *parts) {
      if (MessageDifferencer::Equals(part.shard, shard)) return &part;
    }
  }
  return nullptr;
}

void SimWorker::KeepOnly(const v1::SnapshotId* snapshot) {
  for (Parts* parts : {&own_, &replicas_}) {
    std::erase_if(*parts, [snapshot](const Part& part) {
      return snapshot == nullptr || !MessageDifferencer::Equals(part.shard.snapshot(), *snapshot);
    });
  }
}

// Every rank does this, since all have the same loss.
void SimWorker::Diverge(int64_t end_sample) {
  Collectives::Outcome outcome;
  outcome.status = absl::FailedPreconditionError("training has diverged");
  v1::Divergence& divergence = outcome.divergence.emplace();
  divergence.set_step(step_ + 1);
  divergence.set_cause("simulated");
  divergence.set_samples_consumed(end_sample);
  OnViewFailed(outcome);
}

// Replaces the older of its two snapshots. If copies are kept, the copy is sent meanwhile, and the flag of the next
// steps says so.
void SimWorker::TakeSnapshot() {
  const v1::CheckpointConfig& config = at_.plan.config.checkpoint();
  Part part;
  part.shard.mutable_snapshot()->set_generation(view_generation_);
  part.shard.mutable_snapshot()->set_step(step_);
  part.shard.set_rank(place_.rank());
  part.shard.set_world_size(place_.world_size());
  part.state = state_;
  if (own_.size() == 2) own_.pop_front();
  own_.push_back(part);
  snapshot_due_ = (step_ / config.snapshot_every_steps() + 1) * config.snapshot_every_steps();
  if (config.replicate() > 0 && place_.world_size() > 1) SendCopy(part);
}

void SimWorker::SendCopy(const Part& part) {
  std::vector<int> nodes;
  for (const v1::Member& member : place_.members()) nodes.push_back(member.node());
  const int holder = (place_.rank() + coordinator::ReplicaShift(nodes)) % place_.world_size();
  SimWorker* const peer = at_.peers[place_.members(holder).service_address()];
  const auto in_view = [peer, generation = view_generation_] { return peer->view_generation_ == generation; };
  const auto answered = [this, view = views_] {
    Do([this, view] {
      if (view == views_) sending_ = false;
    });
  };
  sending_ = true;
  LaterInView(at_.world.Uniform(0.01, 0.1), [=, this] {
    peer->Do([=, this] {
      if (!in_view()) return;
      if (peer->replicas_.size() == 2) peer->replicas_.pop_front();  // the arriving snapshot replaces it
      at_.world.After(at_.world.Uniform(0.01, 0.6), [=] {
        peer->Do([=] {
          if (!in_view()) return;
          peer->replicas_.push_back(part);
          answered();
        });
      });
    });
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
                           {.pid = pid_,
                            .sequence = step_ + 1,
                            .state = state_.hash,
                            .stop = asked_to_stop_,
                            .sending = sending_,
                            .number = place_.rank() / at_.plan.tensor(),
                            .leaves = Leaves(),
                            .corrupt = std::exchange(corrupt_, false) && place_.world_size() > 1,
                            .done = [this, view = views_](const auto& outcome) {
                              Do([=, this] {
                                if (view == views_) StepDone(outcome);
                              });
                            }});
  });
}

// This rank's micro-batches in the step that begins, as the engine and its data source choose them.
std::vector<int64_t> SimWorker::Leaves() const {
  const v1::Config& config = at_.plan.config;
  const int64_t ranks = place_.world_size() / at_.plan.tensor(), number = place_.rank() / at_.plan.tensor();
  std::vector<int64_t> leaves;
  for (int64_t round = 0; round < coordinator::MicroBatchesOf(config, ranks); ++round) {
    if (number >= coordinator::RanksInRound(coordinator::LeavesOf(config), ranks, round)) break;
    const int64_t sequence =
        coordinator::FirstSequenceOf(config, ranks, number, round, config.batch().global_sequences());
    leaves.push_back(left_out_.Place(state_.samples_consumed, sequence));
  }
  return leaves;
}

void SimWorker::StepDone(const Collectives::Outcome& outcome) {
  if (!outcome.status.ok()) return OnViewFailed(outcome);
  if (std::exchange(accuses_, false) && place_.world_size() > 2) {
    Collectives::Outcome wrong;
    wrong.status = absl::AbortedError("the ranks disagree");
    wrong.disagreement.add_ranks((place_.rank() + 1) % place_.world_size());
    return OnViewFailed(wrong);
  }
  const int64_t first = left_out_.Place(state_.samples_consumed, 0), end = left_out_.After(first, kBatch);
  if (at_.curriculum.Diverges(first / kBatch)) return Diverge(end);
  state_ = {HashAfter(state_.hash, *outcome.consumed), end};
  ++step_;
  stopping_ = stopping_ || outcome.stop;
  if (place_.rank() == 0) {
    v1::WorkerMessage message;
    message.mutable_event()->mutable_step()->set_step(step_);
    message.mutable_event()->mutable_step()->set_loss(LossOf(state_.hash));
    Send(message);
  }
  const bool snapshots = at_.plan.config.checkpoint().snapshot_every_steps() > 0;
  if (snapshots && step_ >= snapshot_due_ && !outcome.sending) TakeSnapshot();
  if (SavesAfter(step_) || stopping_) return Save(0, [this] { BeginStep(); });
  BeginStep();
}

void SimWorker::AfterSteps() {
  const auto finish = [this] {
    CommitTheLastSave([this] {
      stage_ = Stage::kFinished;
      v1::WorkerMessage message;
      message.mutable_finished()->set_step(step_);
      message.mutable_finished()->set_stopped(stopping_ && step_ < at_.plan.config.steps());
      Send(message);
    });
  };
  if (saved_.first == step_ || at_.disk.IsCommitted(step_)) return finish();
  Save(0, finish);
}

// Called when a collective failed or the ranks disagree; the coordinator decides whose fault that is.
void SimWorker::OnViewFailed(const Collectives::Outcome& outcome) {
  SendFailure(outcome, true);
  ++views_;
  stage_ = Stage::kAwaitingRegroup;
}

void SimWorker::LeaveView() {
  if (view_generation_ != 0) at_.collectives.Break(std::exchange(view_generation_, 0));
  ++views_;
  stage_ = Stage::kMeeting;
  committed_ = -1;
  saved_ = settled_ = kNoSave;
  when_settled_ = nullptr;
  // Nothing interrupts the write of a file, so it ends first.
  BusyFor(at_.world.Uniform(0.02, 0.4) + (saving_ ? StalledSeconds() : 0), [this] { MeetOthers(); });
}

void SimWorker::AwaitOutcome(std::function<void()> then) {
  if (settled_ >= saved_) return then();
  when_settled_ = std::move(then);
}

void SimWorker::OnOutcome(const v1::CheckpointOutcome& outcome) {
  if (view_generation_ == 0) return;  // the outcome belongs to a view that it has left
  settled_ = std::max(settled_, {outcome.step(), outcome.retry()});
  if (outcome.committed()) committed_ = std::max(committed_, outcome.step());
  if (when_settled_ && settled_ >= saved_) std::exchange(when_settled_, nullptr)();
}

void SimWorker::CommitTheLastSave(std::function<void()> then) {
  AwaitOutcome([this, then = std::move(then)] {
    if (committed_ >= saved_.first) return then();
    LaterInView(at_.world.Uniform(0.2, 1) * (1 << saved_.second),
                [this, then] { Save(saved_.second + 1, [this, then] { CommitTheLastSave(then); }); });
  });
}

// Runs one save at a time; the shard is written during the next steps.
void SimWorker::Save(int retry, std::function<void()> then) {
  AwaitOutcome([this, retry, then = std::move(then)] {
    saved_ = {step_, retry};
    WriteShard();
    then();
  });
}

void SimWorker::WriteShard() {
  const uint64_t generation = view_generation_;
  const ShardKey key{step_, generation, place_.rank()};
  v1::ShardWritten shard;
  shard.set_step(step_);
  shard.set_retry(saved_.second);
  shard.set_ok(!std::exchange(at_.faults.shard_fails, false));
  v1::CheckpointManifest& manifest = *shard.mutable_manifest();
  manifest.set_step(step_);
  shard.set_config_digest(coordinator::ConfigDigest(at_.plan.config));
  manifest.set_world_size(place_.world_size());
  manifest.set_team(place_.team());
  manifest.add_tensors()->set_flat_end(kElements);
  manifest.mutable_data_cursor()->set_samples_consumed(state_.samples_consumed);
  shard.mutable_file()->set_rank(place_.rank());
  *shard.mutable_file()->mutable_ranges() = place_.owned();
  at_.disk.BeginShard(key, state_.hash);
  saving_.emplace().set_step(step_);
  Later(at_.disk.WriteSeconds() + StalledSeconds(), [this, key, generation, shard = std::move(shard)] {
    if (!shard.ok() || at_.disk.IsFull()) {
      at_.disk.RemoveShard(key);
      return ReportFailed(shard, generation);
    }
    at_.disk.CompleteShard(key);
    if (saving_) saving_->set_bytes(1);
    Later(at_.disk.WriteSeconds() + StalledSeconds(), [this, key, generation, shard] {
      at_.disk.SyncShard(key);
      Report(shard, generation);
    });
  });
}

void SimWorker::ReportFailed(v1::ShardWritten shard, uint64_t generation) {
  shard.set_ok(false);
  shard.mutable_failure()->set_code(static_cast<int>(absl::StatusCode::kResourceExhausted));
  shard.mutable_failure()->set_message("no space is left");
  Report(std::move(shard), generation);
}

// Reports for the view to which the shard belongs, whatever has come meanwhile.
void SimWorker::Report(v1::ShardWritten shard, uint64_t generation) {
  v1::WorkerMessage message;
  message.set_generation(generation);
  *message.mutable_shard_written() = std::move(shard);
  if (saving_ && saving_->step() == message.shard_written().step()) saving_.reset();
  Send(std::move(message));
}

}  // namespace zerofleet::sim
