// Feeds the coordinator and carries out its decisions; see coordinator_process.h.
#include "tests/sim/coordinator_process.h"

#include <utility>

namespace zerofleet::sim {
namespace {

constexpr double kTick = 0.1, kWatch = 1;  // seconds

coordinator::FleetParameters Parameters(const RunPlan& plan, Disk& disk) {
  coordinator::FleetParameters parameters;
  parameters.config = plan.config;
  parameters.units = {{"w", 0, kElements}};
  parameters.elements = kElements;
  parameters.most_inline_ranks = plan.most_inline_ranks;
  parameters.previous_generation = disk.NewestGeneration();
  parameters.candidates = disk.Candidates();
  parameters.unreadable = disk.Past();
  parameters.may_fall_back = true;
  parameters.rollbacks = disk.state().rollbacks;
  return parameters;
}

// True for messages that begin or end a view, and for commits.
bool IsWorthAFault(const coordinator::Output& output) {
  const auto* send = std::get_if<coordinator::SendTo>(&output.action);
  if (send == nullptr) return std::holds_alternative<coordinator::WriteManifest>(output.action);
  const v1::CoordinatorMessage& message = *send->message;
  return message.has_regroup() || message.has_assignment() || message.has_peers() || message.has_load() ||
         message.has_start();
}

// True for the outcome of a failed save: one rank may have heard of it, and another not.
bool IsWorthACrash(const coordinator::Output& output) {
  const auto* send = std::get_if<coordinator::SendTo>(&output.action);
  return send != nullptr && send->message->has_checkpoint() && !send->message->checkpoint().committed();
}

// Whether an output relies on a durable state. A run that has failed still ends, for the reason it has.
bool RestsOnTheState(const coordinator::Output& output) {
  const auto* send = std::get_if<coordinator::SendTo>(&output.action);
  return send != nullptr ? !send->message->has_refused()
                         : std::holds_alternative<coordinator::WriteManifest>(output.action);
}

}  // namespace

CoordinatorProcess::CoordinatorProcess(World& world, Network& network, Disk& disk, Invariants& invariants,
                                       const RunPlan& plan, CoordinatorHooks hooks)
    : world_(world),
      network_(network),
      disk_(disk),
      invariants_(invariants),
      plan_(plan),
      hooks_(std::move(hooks)),
      coordinator_(Parameters(plan, disk), world.now()) {}

void CoordinatorProcess::Start() {
  self_ = disk_.TakeOver();
  epoch_ = disk_.epoch();
  network_.Serve(this);
  TickOn();
}

// A state or a manifest that is being written either gets written or does not.
void CoordinatorProcess::Crash() {
  if (!alive_) return;
  world_.Trace("the coordinator is killed");
  alive_ = false;
  network_.Lose(this);
  if (persisting_ && world_.Chance(0.5) && !is_older())
    disk_.WriteState(std::get<coordinator::PersistState>(outputs_.front().action).state, false);
  if (saves_.empty() || !world_.Chance(0.5)) return;
  const auto* write = std::get_if<coordinator::WriteManifest>(&saves_.front());
  if (write == nullptr) return;
  if (world_.Chance(0.3)) return CommitLate(write->manifest);
  if (is_older()) return;
  // Older checkpoints are removed only after the directory's fsync, so not by a process that ends before it.
  const bool synced = world_.Chance(0.5);
  if (Commit(write->manifest, /*prunes=*/synced).ok() && !synced) disk_.ForgetSync(write->manifest.step());
}

// Models a process that was stopped between its checks and the rename, or whose node was taken for dead. It checks who
// holds the directory right before the rename, which replaces nothing.
void CoordinatorProcess::CommitLate(const v1::CheckpointManifest& manifest) {
  world_.After(world_.Uniform(0, 8), [this, manifest] {
    const bool sees_the_other = !disk_.CheckHolder(self_).ok() && !world_.Chance(0.1);
    if (sees_the_other || disk_.IsCommitted(manifest.step()) ||
        !disk_.HasShards(manifest.step(), manifest.generation())) {
      return;
    }
    world_.Trace("a coordinator that was taken for dead commits step ", manifest.step());
    if (disk_.Commit(manifest, Disk::kAll).ok()) disk_.NoteLate(manifest.step());
  });
}

void CoordinatorProcess::Freeze(double seconds) {
  if (std::exchange(frozen_, true)) return;
  world_.Trace("the coordinator is stopped for ", seconds, " s");
  world_.After(seconds, [this] {
    frozen_ = false;
    woke_at_ = world_.now();
    for (const coordinator::CoordinatorEvent& event : std::exchange(held_, {})) Feed(event);
    CarryOut();
  });
}

// A worker that arrives after the run has ended is told how it ended.
void CoordinatorProcess::Receive(coordinator::MemberId member, const v1::WorkerMessage& message) {
  const bool late = alive_ && !frozen_ && message.has_hello() && fleet().ended();
  if (!late) return Feed(coordinator::MessageReceived{member, message});
  v1::CoordinatorMessage complete;
  complete.mutable_complete();
  if (fleet().phase == coordinator::Phase::kDone) network_.Send(member, complete);
  network_.CloseByCoordinator(member);
}

void CoordinatorProcess::TickOn() {
  if (!alive_) return;
  if (!frozen_) Feed(coordinator::Tick());
  if (!frozen_ && plan_.second_coordinators > 0) WatchDirectory();
  world_.After(kTick, [this] { TickOn(); });
}

// Does what services/coordinator/coordinator_server.cc does.
void CoordinatorProcess::WatchDirectory() {
  if (directory_is_lost_ || world_.now() < watches_at_) return;
  watches_at_ = world_.now() + kWatch;
  const absl::Status held = disk_.CheckHolder(self_);
  directory_is_lost_ = !held.ok();
  if (directory_is_lost_) Feed(coordinator::StorageLost{absl::NotFoundError(held.message())});
}

void CoordinatorProcess::Feed(const coordinator::CoordinatorEvent& event) {
  if (!alive_) return;
  if (frozen_) return held_.push_back(event);
  if (const auto* received = std::get_if<coordinator::MessageReceived>(&event);
      world_.tracing() && received != nullptr) {
    v1::WorkerMessage shown = received->message;
    if (shown.has_shard_written()) shown.mutable_shard_written()->clear_manifest();
    world_.Trace("from ", received->member, ": ", shown.ShortDebugString());
  }
  invariants_.BeforeStep(fleet(), event);
  std::vector<coordinator::Output> outputs = coordinator_.Step(event, clock());
  invariants_.AfterStep(fleet(), event, outputs);
  for (coordinator::Output& output : outputs) outputs_.push_back(std::move(output));
  CarryOut();
}

void CoordinatorProcess::CarryOut() {
  while (alive_ && !frozen_ && !persisting_ && !outputs_.empty()) {
    const coordinator::Output& front = outputs_.front();
    if (world_.tracing()) world_.Trace("> ", coordinator::Describe(front));
    is_older() ? invariants_.OnOutputOfTheOlder(fleet(), front) : invariants_.OnOutput(fleet(), front);
    if (const auto* persist = std::get_if<coordinator::PersistState>(&front.action)) return Persist(persist->state);
    const coordinator::Output output = std::move(outputs_.front());
    outputs_.pop_front();
    const absl::Status status = Do(output);
    if (!status.ok()) OnStorageFailure(status);
  }
}

absl::Status CoordinatorProcess::Do(const coordinator::Output& output) {
  if (IsWorthAFault(output)) hooks_.worth_a_fault();
  if (IsWorthACrash(output)) hooks_.worth_a_crash();
  if (const auto* send = std::get_if<coordinator::SendTo>(&output.action)) {
    network_.Send(send->member, *send->message);
  } else if (const auto* close = std::get_if<coordinator::CloseSession>(&output.action)) {
    network_.CloseByCoordinator(close->member);
  } else if (const auto* broken = std::get_if<coordinator::BreakSession>(&output.action)) {
    network_.BreakByCoordinator(broken->member);
  } else if (const auto* write = std::get_if<coordinator::WriteManifest>(&output.action)) {
    Store(*write);
  } else if (const auto* discard = std::get_if<coordinator::DiscardSave>(&output.action)) {
    Store(*discard);
  } else if (const auto* verify = std::get_if<coordinator::VerifyCheckpoint>(&output.action)) {
    Store(*verify);
  } else if (const auto* publish = std::get_if<coordinator::PublishEvent>(&output.action)) {
    if (publish->event.has_lost()) hooks_.lost(publish->event.lost());
    if (publish->event.has_end()) stopped_ = publish->event.end().stopped();
  } else if (const auto* aside = std::get_if<coordinator::SetAside>(&output.action)) {
    if (const absl::Status held = disk_.CheckHolder(self_); !held.ok()) return held;
    invariants_.OnChange(epoch_, world_.now(), "sets a checkpoint aside");
    return disk_.SetAside(aside->path);
  } else if (const auto* end = std::get_if<coordinator::EndRun>(&output.action)) {
    hooks_.ended(end->status, stopped_);
  }
  return absl::OkStatus();
}

void CoordinatorProcess::Persist(const coordinator::CoordinatorState& state) {
  persisting_ = true;
  const absl::Status held = disk_.CheckHolder(self_);
  world_.After(disk_.WriteSeconds() / 10, [this, state, held, looked_at = world_.now()] {
    if (!alive_) return;
    persisting_ = false;
    outputs_.pop_front();
    absl::Status saved = held;
    if (std::exchange(state_fails_, false)) saved = absl::ResourceExhaustedError("no space is left for the state");
    if (saved.ok()) {
      invariants_.OnChange(epoch_, looked_at, "writes the state");
      disk_.WriteState(state, is_older());
      saved = disk_.CheckHolder(self_);  // a newer one may have read the state before this
    }
    if (!saved.ok()) OnStorageFailure(saved);
    CarryOut();
  });
}

void CoordinatorProcess::Store(Save save) {
  saves_.push_back(std::move(save));
  if (saves_.size() == 1) StoreNext();
}

void CoordinatorProcess::StoreNext() {
  // A commit first reads all shards again; a recovery may overtake it.
  const double seconds =
      disk_.WriteSeconds() + (world_.Chance(0.2) ? world_.Uniform(0, 4) : 0) + std::exchange(storage_stalls_, 0);
  const double hangs = std::exchange(change_hangs_, 0);
  world_.After(seconds, [this, hangs] {
    if (!alive_) return;
    held_by_this_ = disk_.CheckHolder(self_);
    looked_at_ = world_.now();
    if (hangs == 0) return CarryOutSave();
    world_.After(hangs, [this] {
      if (alive_) CarryOutSave();
    });
  });
}

void CoordinatorProcess::CarryOutSave() {
  const Save save = std::move(saves_.front());
  saves_.pop_front();
  const coordinator::CoordinatorEvent stored = std::visit([this](const auto& what) { return Stored(what); }, save);
  if (!saves_.empty()) StoreNext();
  Feed(stored);
}

coordinator::CoordinatorEvent CoordinatorProcess::Stored(const coordinator::WriteManifest& write) {
  absl::StatusOr<coordinator::CommittedStep> committed = absl::PermissionDeniedError("read-only");
  const bool fails = std::exchange(manifest_fails_, false) || disk_.IsFull();
  if (!fails && held_by_this_.ok()) committed = Commit(write.manifest, /*prunes=*/true);
  if (!fails && !held_by_this_.ok()) committed = held_by_this_;
  if (committed.ok() && std::exchange(answer_is_lost_, false)) {
    disk_.NoteLate(write.manifest.step());
    committed = absl::UnavailableError("simulated: the answer is lost");
  }
  return coordinator::ManifestWritten{write.manifest.step(), committed.status(),
                                      committed.ok() ? *committed : coordinator::CommittedStep(),
                                      static_cast<uint64_t>(write.manifest.generation())};
}

coordinator::CoordinatorEvent CoordinatorProcess::Stored(const coordinator::DiscardSave& discard) {
  if (held_by_this_.ok()) {
    invariants_.OnChange(epoch_, looked_at_, "removes what a save left");
    disk_.Discard(discard);
  }
  return coordinator::SaveDiscarded{discard.step, discard.generation};
}

coordinator::CoordinatorEvent CoordinatorProcess::Stored(const coordinator::VerifyCheckpoint& verify) {
  const absl::Status status = disk_.Load(verify.path).status();
  return coordinator::CheckpointVerified{verify.path, status.ok() ? std::exchange(reads_badly_, status) : status};
}

absl::StatusOr<coordinator::CommittedStep> CoordinatorProcess::Commit(const v1::CheckpointManifest& manifest,
                                                                      bool prunes) {
  invariants_.OnChange(epoch_, looked_at_, "commits");
  if (is_older()) return CommitAsTheOlder(manifest);
  world_.Trace("step ", manifest.step(), " of generation ", manifest.generation(), " is committed");
  const bool outlived = fleet().saving.outlived.contains({manifest.generation(), manifest.step()});
  outlived ? invariants_.OnCommittedLate(manifest) : invariants_.OnCommitted(manifest);
  if (!prunes) return disk_.Commit(manifest, Disk::kAllKnown);
  if (prune_hangs_ == 0 || answer_is_lost_) return disk_.Commit(manifest, answer_is_lost_ ? Disk::kAll : plan_.keep);
  absl::StatusOr<coordinator::CommittedStep> committed = disk_.Commit(manifest, Disk::kAllKnown);
  world_.After(std::exchange(prune_hangs_, 0), [this, surplus = disk_.Surplus(plan_.keep), looked_at = world_.now()] {
    if (surplus.empty()) return;
    invariants_.OnChange(epoch_, looked_at, "prunes");
    disk_.RemoveSteps(surplus, plan_.keep, is_older());
  });
  return committed;
}

// The older coordinator has checked before the newer began: it replaces nothing, and the newer does not know of the
// commit.
absl::StatusOr<coordinator::CommittedStep> CoordinatorProcess::CommitAsTheOlder(
    const v1::CheckpointManifest& manifest) {
  if (disk_.IsCommitted(manifest.step())) return absl::FailedPreconditionError("holds a committed checkpoint");
  if (!disk_.HasShards(manifest.step(), manifest.generation())) return absl::DataLossError("the shards were removed");
  world_.Trace("the older coordinator commits step ", manifest.step());
  invariants_.OnCommittedLate(manifest);
  return disk_.Commit(manifest, Disk::kAll);
}

void CoordinatorProcess::OnStorageFailure(const absl::Status& status) {
  if (fleet().phase == coordinator::Phase::kFailed) {
    std::erase_if(outputs_, [](const coordinator::Output& output) { return RestsOnTheState(output); });
    return;
  }
  outputs_.clear();
  for (coordinator::Output& output : coordinator_.Step(coordinator::PersistFailed{status}, clock()))
    outputs_.push_back(std::move(output));
}

}  // namespace zerofleet::sim
