// Entering a view, loading, and training in it; see worker_life.h.
#include "worker/trainer/worker_life.h"

#include <utility>

#include "base/kill_point.h"
#include "base/status.h"
#include "worker/trainer/failure_report.h"
#include "worker/trainer/partition_check.h"
#include "worker/trainer/peer_pages.h"

namespace zerofleet::trainer {

absl::Status WorkerLife::Enter(const v1::Assignment& assignment, uint64_t generation) {
  saved_ = settled_ = SaveTry();
  committed_step_ = -1;
  ZF_ASSIGN_OR_RETURN(const parallel::Mesh mesh, parallel::Mesh::Create(assignment, generation));
  options_.traced(assignment.trace_id());
  status_.SetGeneration(generation);
  status_.SetPhase("loading");
  metrics_.SetIdentity({.rank = mesh.rank(),
                        .world_size = mesh.world_size(),
                        .zero_stage = config_.parallel().zero_stage(),
                        .precision = config_.precision(),
                        .device = device_->kind(),
                        .device_description = device_->description(),
                        .version = options_.hello.version(),
                        .run = run_name_});
  ZF_ASSIGN_OR_RETURN(const PeerAddresses peers,
                      PeersOf(assignment, mesh, [this](const v1::PeersWanted& wanted) { return Ask(wanted); }));
  ZF_ASSIGN_OR_RETURN(
      parallel::GroupCommunicators groups,
      parallel::GroupCommunicators::Join(
          mesh, peers.transport, *endpoint_,
          {.key = assignment.collective_key(), .refused = options_.refused_peer, .notice = options_.note}));
  ZF_KILL_POINT("worker/groups-joined");
  const std::string reason = endpoint_->fallback_reason();
  options_.placed(
      mesh.rank(), generation,
      absl::StrCat("rank ", mesh.rank(), " of ", mesh.world_size(), ", ", device_->description(), ", collectives over ",
                   groups.data().backend(), reason.empty() ? "" : absl::StrCat(": ", reason)));
  const bool copied = config_.checkpoint().replicate() > 0 && mesh.replica_holder() != mesh.rank();
  replica_holder_ = copied ? peers.replica_holder : "";
  ZF_RETURN_IF_ERROR(run_->Enter(mesh, std::move(groups)));
  status_.SetGroups(&run_->groups());
  ZF_RETURN_IF_ERROR(CheckPartition(assignment, mesh.data(), run_->partition()));
  ZF_ASSIGN_OR_RETURN(const ViewDigests digests, run_->view_digests());
  v1::WorkerMessage message;
  message.mutable_entered()->set_layout_digest(digests.layout);
  message.mutable_entered()->set_schedule_digest(digests.schedule);
  return Send(message);
}

absl::StatusOr<v1::Peers> WorkerLife::Ask(const v1::PeersWanted& wanted) {
  v1::WorkerMessage message;
  *message.mutable_peers_wanted() = wanted;
  ZF_RETURN_IF_ERROR(Send(std::move(message)));
  ZF_ASSIGN_OR_RETURN(v1::CoordinatorMessage answer, Await(v1::CoordinatorMessage::kPeers));
  return std::move(*answer.mutable_peers());
}

absl::Status WorkerLife::LoadUntilStart() {
  bool resumed = false;
  while (true) {
    if (options_.stop_signal() != 0) return SignalledEarly();
    absl::StatusOr<v1::CoordinatorMessage> message = session_.Receive(kPollSeconds);
    if (absl::IsDeadlineExceeded(message.status())) continue;
    ZF_RETURN_IF_ERROR(message);
    if (message->has_start()) {
      result_.step = message->start().step();
      status_.SetPhase("training");
      status_.SetStep(result_.step);
      training_ = true;
      ZF_KILL_POINT("worker/start");
      TellStart(resumed);
      sending_somewhere_ = false;
      rounds_.BeginView(config_, run_->mesh().generation(), result_.step, replica_holder_);
      return run_->Start(resumed || !config_.init_from().empty(), message->start());
    }
    if (message->has_stop()) return StoppedEarly(message->stop().reason());
    if (message->has_regroup()) return Regrouped(*message);
    if (!message->has_load()) continue;
    const v1::Load& load = message->load();
    resumed = load.has_snapshot() || !load.path().empty();
    ZF_KILL_POINT("worker/load");
    const absl::Status status = Load(load);
    v1::WorkerMessage answer;
    answer.mutable_load_result()->set_ok(status.ok());
    answer.mutable_load_result()->set_path(load.path());
    answer.mutable_load_result()->set_samples_consumed(resumed && status.ok() ? run_->samples_loaded() : 0);
    const bool began = status.ok() && !load.has_snapshot() && load.path().empty();
    if (began) answer.mutable_load_result()->set_initial_xxh3_128(run_->initial_digest());
    if (load.has_snapshot()) *answer.mutable_load_result()->mutable_snapshot() = load.snapshot();
    if (!status.ok()) *answer.mutable_load_result()->mutable_failure() = FailureOf(status, 0);
    ZF_KILL_POINT("worker/loaded");
    ZF_RETURN_IF_ERROR(Send(answer));
    ZF_KILL_POINT("worker/load-told");
  }
}

absl::Status WorkerLife::Load(const v1::Load& load) {
  if (load.has_snapshot()) return Restore(load.snapshot(), load.peer());
  options_.snapshots->KeepOnly(std::nullopt);
  if (load.path().empty()) {
    if (config_.init_from().empty()) return absl::OkStatus();
    return Annotate(run_->loader().LoadWeights(config_.init_from()), "init_from");
  }
  ZF_ASSIGN_OR_RETURN(const LoadedFrom from,
                      run_->loader().Load(load.path(), {load.step(), load.manifest_xxh3_128()},
                                          [this](const std::string& line) { TellPeople(line); }));
  if (from == LoadedFrom::kMemory) {
    options_.note(absl::StrCat("has ", load.path(), " in memory: read no shard"));
  }
  return absl::OkStatus();
}

absl::Status WorkerLife::Restore(const v1::SnapshotId& snapshot, const std::string& peer) {
  if (peer.empty()) {
    ZF_RETURN_IF_ERROR(run_->loader().Restore(snapshot));
  } else if (options_.peers == nullptr) {
    return absl::FailedPreconditionError("this worker reaches no others");
  } else {
    ZF_RETURN_IF_ERROR(
        run_->loader().RestoreFromPeer(snapshot, [&](const v1::SnapshotShard& part, IncomingSnapshot& incoming) {
          return options_.peers->Get(peer, run_->mesh().generation(), config_.restart().load_timeout_seconds(), part,
                                     incoming);
        }));
  }
  options_.snapshots->KeepOnly(snapshot);
  options_.note(absl::StrCat("has the snapshot of step ", snapshot.step(),
                             peer.empty() ? " in memory" : absl::StrCat(" from ", peer), ": read no storage"));
  return absl::OkStatus();
}

void WorkerLife::TellStart(bool resumed) const {
  v1::Event event;
  v1::StartEvent& start = *event.mutable_start();
  start.set_version(options_.hello.version());
  *start.mutable_config() = config_;
  start.set_world_size(run_->mesh().world_size());
  start.set_device(device_->kind());
  start.set_parameters(run_->parameters());
  if (resumed) start.set_resumed_from(result_.step);
  options_.event(event);
}

absl::Status WorkerLife::TrainToTheEnd() {
  if (run_->best().stops() && result_.step < config_.steps() && run_->mesh().rank() == 0) {
    TellPeople(run_->best().Reason());  // it goes on from the last checkpoint before the end
  }
  Asked asked;  // steps that are already launched are still collected
  int64_t launched = result_.step;
  while (result_.step < config_.steps() && !asked.stop && !run_->best().stops()) {
    ZF_RETURN_IF_ERROR(HandleWaitingMessages());
    ZF_RETURN_IF_ERROR(NoticeSignal());
    ZF_RETURN_IF_ERROR(LeaveIfSaved());
    ZF_RETURN_IF_ERROR(run_->Launch(++launched, {.stop = stop_, .sending = rounds_.sending(), .save = asks_for_save_}));
    while (run_->HasLaunched() && (Settles(launched) || asked.stop || asked.save || !run_->MayCollectLate())) {
      ZF_RETURN_IF_ERROR(CollectStep(&asked));
    }
    if (run_->HasLaunched()) continue;
    ZF_RETURN_IF_ERROR(AfterStep(result_.step, asked));
    asked.save = false;
  }
  result_.stopped = asked.stop && result_.step < config_.steps();
  return SaveWhatWasResumed();
}

absl::Status WorkerLife::CollectStep(Asked* asked) {
  ZF_ASSIGN_OR_RETURN(TrainingRun::StepOutcome outcome, run_->Collect());
  ZF_KILL_POINT("worker/first-step");
  result_.step = outcome.event.step();
  status_.SetStep(result_.step);
  status_.SetPace(run_->pace());
  asked->stop = asked->stop || outcome.stop;
  asked->save = asked->save || outcome.save;
  sending_somewhere_ = outcome.sending;
  if (run_->mesh().rank() == 0) {
    for (const std::string& note : outcome.notes) options_.note(note);
  }
  v1::WorkerMessage message;
  *message.mutable_event()->mutable_step() = outcome.event;
  options_.event(message.event());
  return run_->mesh().rank() == 0 ? Send(std::move(message)) : absl::OkStatus();
}

absl::Status WorkerLife::AfterStep(int64_t step, const Asked& asked) {
  if (run_->DrawsHistogramsOf(step)) {
    ZF_ASSIGN_OR_RETURN(std::vector<v1::HistogramEvent> histograms, run_->Histograms(step));
    for (v1::HistogramEvent& histogram : histograms) {
      if (run_->mesh().rank() != 0) break;
      v1::WorkerMessage message;
      *message.mutable_event()->mutable_histogram() = std::move(histogram);
      ZF_RETURN_IF_ERROR(Send(std::move(message)));
    }
  }
  if (run_->EvaluatesAfter(step)) {
    ZF_ASSIGN_OR_RETURN(v1::EvaluateEvent evaluation, run_->Evaluate(step));
    v1::WorkerMessage message;
    *message.mutable_event()->mutable_evaluate() = evaluation;
    metrics_.Evaluated(evaluation);
    options_.event(message.event());
    if (run_->mesh().rank() == 0) ZF_RETURN_IF_ERROR(Send(message));
  }
  ZF_RETURN_IF_ERROR(TakeSnapshotIfDue(step));
  if (run_->best().stops() && run_->mesh().rank() == 0) TellPeople(run_->best().Reason());
  if (!SavesAfter(step) && !asked.stop && !asked.save && !run_->best().stops()) return absl::OkStatus();
  ZF_RETURN_IF_ERROR(Save({step, 0}));
  if (std::exchange(asks_for_save_, false)) parting_save_ = saved_;
  return absl::OkStatus();
}

// All ranks decide alike, since they know the same about the step.
absl::Status WorkerLife::TakeSnapshotIfDue(int64_t step) {
  if (!rounds_.Due(step) || sending_somewhere_) return absl::OkStatus();
  ZF_ASSIGN_OR_RETURN(const v1::SnapshotShard shard, run_->TakeSnapshot(step));
  rounds_.Taken(shard);
  return absl::OkStatus();
}

absl::Status WorkerLife::HandleWaitingMessages() {
  while (true) {
    absl::StatusOr<v1::CoordinatorMessage> message = session_.Receive(0);
    if (absl::IsDeadlineExceeded(message.status())) return absl::OkStatus();
    ZF_RETURN_IF_ERROR(message);
    if (message->has_regroup()) return Regrouped(*message);
    if (message->has_stop()) stop_ = true;
    if (message->has_checkpoint()) HandleOutcome(message->checkpoint());
  }
}

absl::Status WorkerLife::Finish() {
  status_.SetPhase("finishing");
  rounds_.EndView();
  ZF_RETURN_IF_ERROR(run_->Finish());
  ZF_RETURN_IF_ERROR(CommitTheLastSave());
  ZF_KILL_POINT("worker/last-save-committed");
  v1::RankReport report = run_->Report(result_.step);
  v1::WorkerMessage message;
  message.mutable_finished()->set_step(result_.step);
  message.mutable_finished()->set_stopped(result_.stopped);
  *message.mutable_finished()->mutable_report() = report;
  ZF_RETURN_IF_ERROR(Send(message));
  ZF_KILL_POINT("worker/finished");
  ZF_RETURN_IF_ERROR(Await(v1::CoordinatorMessage::kComplete).status());
  ZF_KILL_POINT("worker/complete");
  return absl::OkStatus();
}

}  // namespace zerofleet::trainer
