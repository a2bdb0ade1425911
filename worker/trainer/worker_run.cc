// The messages of a worker's life, in order; see worker_run.h.
#include "worker/trainer/worker_run.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/kill_point.h"
#include "base/status.h"
#include "worker/checkpoint/catalog.h"
#include "worker/collective/factory.h"
#include "worker/trainer/failure_report.h"
#include "worker/trainer/partition_check.h"
#include "worker/trainer/peer_pages.h"
#include "worker/trainer/snapshot_rounds.h"
#include "worker/trainer/training_run.h"
#include "worker/zero/divergence.h"

namespace zerofleet::trainer {
namespace {

constexpr double kPollSeconds = 0.1;

// One try to save a step. A rank's tries are in this order.
struct SaveTry {
  int64_t step = -1;
  int retry = 0;
  auto operator<=>(const SaveTry&) const = default;  // NOLINT(modernize-use-nullptr): of its own making
};

absl::Status StoppedEarly(const std::string& reason) {
  return absl::CancelledError(absl::StrCat("stopped before training began: ", reason));
}

class WorkerRun {
 public:
  WorkerRun(const WorkerRunOptions& options, FleetSession& session, WorkerStatus& status, MetricsSink& metrics,
            const Clock& clock)
      : options_(options),
        session_(session),
        status_(status),
        metrics_(metrics),
        clock_(clock),
        rounds_(*options.snapshots, options.peers, [this](const std::string& line) { TellPeople(line); }) {}

  ~WorkerRun() { status_.SetGroups(nullptr); }

  // Left while the run goes on: no fault, and nothing to report.
  bool left() const { return left_; }

  absl::StatusOr<WorkerRunResult> Run() {
    absl::StatusOr<WorkerRunResult> result = RunToTheEnd();
    // Peers may be gone for good: operations still posted must not wait for them.
    if (!result.ok()) {
      options_.lost(result.status());
      status_.Abort(result.status());
    }
    return result;
  }

 private:
  absl::StatusOr<WorkerRunResult> RunToTheEnd() {
    session_.OnLost([&status = status_, peers = options_.peers, lost = options_.lost](const absl::Status& reason) {
      lost(reason);
      status.Abort(reason);
      if (peers != nullptr) peers->EndViewsBefore(std::numeric_limits<uint64_t>::max());
    });
    session_.OnRegroup([&status = status_, peers = options_.peers](uint64_t generation, const absl::Status& reason) {
      status.EndViewsBefore(generation, reason);
      if (peers != nullptr) peers->EndViewsBefore(generation);
    });
    ZF_RETURN_IF_ERROR(Join());
    if (over_) return result_;
    while (true) {
      const absl::Status status = TakePartInAView();
      if (status.ok()) return result_;
      ZF_RETURN_IF_ERROR(LeaveView(status));
    }
  }

  absl::Status Join();
  absl::Status Prepare(const v1::Config& config);
  // From Ready to Complete, or to the end of the view: see LeaveView.
  absl::Status TakePartInAView();
  // After `why`: drops what belonged to the view, with the next one announced. Otherwise `why`, or why the session
  // ended.
  absl::Status LeaveView(const absl::Status& why);
  absl::Status MeetOthers();
  absl::Status Enter(const v1::Assignment& assignment, uint64_t generation);
  absl::StatusOr<v1::Peers> Ask(const v1::PeersWanted& wanted);
  absl::Status LoadUntilStart();
  absl::Status Load(const v1::Load& load);
  absl::Status Restore(const v1::SnapshotId& snapshot, const std::string& peer);
  absl::Status TakeSnapshotIfDue(int64_t step);
  // A line for whoever watches the run.
  void TellPeople(const std::string& line);
  void TellStart(bool resumed) const;
  absl::Status TrainToTheEnd();
  bool SavesAfter(int64_t step) const;
  // Whether something after this step needs its outcome, and that of all before it.
  bool Settles(int64_t step) const { return SavesAfter(step) || run_->EvaluatesAfter(step) || rounds_.Due(step); }
  // What some rank has asked of all, in a step that was collected.
  struct Asked {
    bool stop = false, save = false;
  };
  absl::Status CollectStep(Asked* asked);
  absl::Status AfterStep(int64_t step, const Asked& asked);
  absl::Status SaveWhatWasResumed();
  absl::Status Save(const SaveTry& save);
  absl::Status HandleWaitingMessages();
  void HandleOutcome(const v1::CheckpointOutcome& outcome);
  absl::Status AwaitOutcome();
  absl::Status CommitTheLastSave();
  absl::Status Pause(double seconds);
  absl::Status Finish();

  // The next message of this kind, or Complete for who has no place yet, a spare say; others that arrive in between are
  // handled. Aborted for a Regroup that is not awaited.
  absl::StatusOr<v1::CoordinatorMessage> Await(v1::CoordinatorMessage::BodyCase kind);
  absl::Status Regrouped(const v1::CoordinatorMessage& message);
  absl::Status Send(v1::WorkerMessage message) { return session_.Send(std::move(message)); }
  absl::Status NoticeSignal();
  // A signal came while this worker was not training.
  absl::Status SignalledEarly();
  // Cancelled once the checkpoint that a leaving worker asked for is settled.
  absl::Status LeaveIfSaved();

  const WorkerRunOptions& options_;
  FleetSession& session_;
  WorkerStatus& status_;
  MetricsSink& metrics_;
  const Clock& clock_;
  v1::Config config_;
  std::string run_name_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<collective::CollectiveEndpoint> endpoint_;
  std::unique_ptr<TrainingRun> run_;
  SnapshotRounds rounds_;
  std::string replica_holder_;      // the service address in this view; empty: none
  bool sending_somewhere_ = false;  // a snapshot, when the last step collected began
  SaveTry saved_, settled_;         // in this view: the last that began, and the last whose outcome was heard
  int64_t committed_step_ = -1;     // of those, the last that was committed
  bool stop_ = false, training_ = false;
  bool assigned_ = false;                   // has a place in a view, whether or not it has entered it
  bool regroup_ = false;                    // the coordinator has ended the view
  std::optional<v1::FlightRecord> flight_;  // of the view that was left
  bool told_signal_ = false;
  bool asks_for_save_ = false;           // before it leaves
  std::optional<SaveTry> parting_save_;  // what it asked for
  bool left_ = false;
  bool over_ = false;  // the run had ended when this worker joined
  WorkerRunResult result_;
};

absl::Status WorkerRun::Join() {
  ZF_ASSIGN_OR_RETURN(device_, options_.create_device(options_.device));
  v1::WorkerMessage hello;
  *hello.mutable_hello() = options_.hello;
  hello.mutable_hello()->set_device(device_->kind());
  hello.mutable_hello()->set_device_description(device_->description());
  ZF_KILL_POINT("worker/hello");
  ZF_RETURN_IF_ERROR(Send(hello));
  ZF_ASSIGN_OR_RETURN(v1::CoordinatorMessage welcome, Await(v1::CoordinatorMessage::kWelcome));
  over_ = welcome.has_complete();
  if (over_) return absl::OkStatus();
  ZF_KILL_POINT("worker/welcome");
  session_.StartHeartbeats([&status = status_] { return status.Heartbeat(); });
  run_name_ = welcome.welcome().run();
  return Prepare(welcome.welcome().config());
}

absl::Status WorkerRun::TakePartInAView() {
  ZF_RETURN_IF_ERROR(MeetOthers());
  ZF_ASSIGN_OR_RETURN(v1::CoordinatorMessage assigned, Await(v1::CoordinatorMessage::kAssignment));
  if (assigned.has_complete()) return absl::OkStatus();
  assigned_ = true;
  ZF_KILL_POINT("worker/assignment");
  ZF_RETURN_IF_ERROR(Enter(assigned.assignment(), assigned.generation()));
  ZF_KILL_POINT("worker/entered");
  ZF_RETURN_IF_ERROR(LoadUntilStart());
  ZF_RETURN_IF_ERROR(TrainToTheEnd());
  return Finish();
}

absl::Status WorkerRun::LeaveView(const absl::Status& why) {
  if (!regroup_) {
    // A collective that failed is no fault of this worker: the coordinator knows whose, or finds out.
    const bool of_the_view = absl::IsUnavailable(why) || absl::IsAborted(why) || absl::IsDeadlineExceeded(why);
    const bool goes_back = config_.on_divergence() == "rollback" && zero::DivergenceOf(why).has_value();
    if ((!of_the_view && !goes_back) || !assigned_) return why;
    v1::WorkerMessage message;
    *message.mutable_failure() = FailureOf(why, result_.step);
    message.mutable_failure()->set_in_view(true);
    ZF_RETURN_IF_ERROR(Send(std::move(message)));
    ZF_RETURN_IF_ERROR(Await(v1::CoordinatorMessage::kRegroup).status());
  }
  ZF_KILL_POINT("worker/regroup");
  options_.note(absl::StrCat("leaving the view: ", why.message()));
  status_.SetPhase("joining");
  status_.SetGroups(nullptr);
  if (run_->in_view()) flight_ = run_->Flight();
  rounds_.EndView();
  run_->Leave();
  endpoint_.reset();
  ZF_KILL_POINT("worker/view-left");
  assigned_ = regroup_ = training_ = false;
  return absl::OkStatus();
}

absl::Status WorkerRun::Prepare(const v1::Config& config) {
  config_ = config;
  if (config.device() != "auto" && config.device() != device_->kind()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the configuration's device is ", config.device(), ", this worker's is ", device_->kind()));
  }
  ZF_ASSIGN_OR_RETURN(run_, TrainingRun::Prepare(config, *device_, clock_, metrics_, options_.snapshots));
  absl::StatusOr<DataFeed::IdCheck> ids =
      run_->CheckIds(options_.device.threads, [this] { return options_.stop_signal() != 0; });
  if (absl::IsCancelled(ids.status())) return SignalledEarly();
  return ids.status();
}

absl::Status WorkerRun::MeetOthers() {
  ZF_ASSIGN_OR_RETURN(endpoint_,
                      collective::CreateCollectiveEndpoint(config_.collectives(), *device_, {parallel::kDataGroup}));
  ZF_KILL_POINT("worker/endpoint-made");
  v1::WorkerMessage message;
  v1::Ready* ready = message.mutable_ready();
  ready->set_config_digest(run_->config_digest());
  ready->set_parameters(run_->parameters());
  ready->set_transport_address(endpoint_->address());
  if (flight_) *ready->mutable_flight() = *std::exchange(flight_, std::nullopt);
  for (v1::SnapshotShard& shard : options_.snapshots->Held()) *ready->add_snapshots() = std::move(shard);
  ZF_RETURN_IF_ERROR(Send(message));
  ZF_KILL_POINT("worker/ready-told");
  return absl::OkStatus();
}

absl::Status WorkerRun::Enter(const v1::Assignment& assignment, uint64_t generation) {
  saved_ = settled_ = SaveTry();
  committed_step_ = -1;
  ZF_ASSIGN_OR_RETURN(const parallel::Mesh mesh, parallel::Mesh::Create(assignment, generation));
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
  ZF_ASSIGN_OR_RETURN(parallel::GroupCommunicators groups,
                      parallel::GroupCommunicators::Join(mesh, peers.transport, *endpoint_));
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

absl::StatusOr<v1::Peers> WorkerRun::Ask(const v1::PeersWanted& wanted) {
  v1::WorkerMessage message;
  *message.mutable_peers_wanted() = wanted;
  ZF_RETURN_IF_ERROR(Send(std::move(message)));
  ZF_ASSIGN_OR_RETURN(v1::CoordinatorMessage answer, Await(v1::CoordinatorMessage::kPeers));
  return std::move(*answer.mutable_peers());
}

absl::Status WorkerRun::LoadUntilStart() {
  bool loaded = false;
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
      TellStart(loaded);
      sending_somewhere_ = false;
      rounds_.BeginView(config_, run_->mesh().generation(), result_.step, replica_holder_);
      return run_->Start(loaded, message->start());
    }
    if (message->has_stop()) return StoppedEarly(message->stop().reason());
    if (message->has_regroup()) return Regrouped(*message);
    if (!message->has_load()) continue;
    const v1::Load& load = message->load();
    loaded = load.has_snapshot() || !load.path().empty();
    ZF_KILL_POINT("worker/load");
    const absl::Status status = Load(load);
    v1::WorkerMessage answer;
    answer.mutable_load_result()->set_ok(status.ok());
    answer.mutable_load_result()->set_path(load.path());
    answer.mutable_load_result()->set_samples_consumed(loaded && status.ok() ? run_->samples_loaded() : 0);
    if (load.has_snapshot()) *answer.mutable_load_result()->mutable_snapshot() = load.snapshot();
    if (!status.ok()) *answer.mutable_load_result()->mutable_failure() = FailureOf(status, 0);
    ZF_KILL_POINT("worker/loaded");
    ZF_RETURN_IF_ERROR(Send(answer));
    ZF_KILL_POINT("worker/load-told");
  }
}

absl::Status WorkerRun::Load(const v1::Load& load) {
  if (load.has_snapshot()) return Restore(load.snapshot(), load.peer());
  options_.snapshots->KeepOnly(std::nullopt);
  if (load.path().empty()) return absl::OkStatus();
  ZF_ASSIGN_OR_RETURN(const TrainingRun::LoadedFrom from,
                      run_->Load(load.path(), [this](const std::string& line) { TellPeople(line); }));
  if (from == TrainingRun::LoadedFrom::kMemory) {
    options_.note(absl::StrCat("has ", load.path(), " in memory: read no shard"));
  }
  return absl::OkStatus();
}

absl::Status WorkerRun::Restore(const v1::SnapshotId& snapshot, const std::string& peer) {
  if (!peer.empty()) {
    if (options_.peers == nullptr) return absl::FailedPreconditionError("this worker reaches no others");
    v1::SnapshotShard wanted;
    *wanted.mutable_snapshot() = snapshot;
    wanted.set_rank(run_->mesh().rank());
    wanted.set_world_size(run_->mesh().world_size());
    IncomingSnapshot incoming(*options_.snapshots, wanted);
    ZF_RETURN_IF_ERROR(options_.peers->Get(peer, run_->mesh().generation(), config_.restart().form_timeout_seconds(),
                                           wanted, incoming));
  }
  ZF_RETURN_IF_ERROR(run_->Restore(snapshot));
  options_.snapshots->KeepOnly(snapshot);
  options_.note(absl::StrCat("has the snapshot of step ", snapshot.step(),
                             peer.empty() ? " in memory" : absl::StrCat(" from ", peer), ": read no storage"));
  return absl::OkStatus();
}

void WorkerRun::TellPeople(const std::string& line) {
  v1::WorkerMessage message;
  message.mutable_event()->mutable_notice()->set_message(line);
  Send(std::move(message)).IgnoreError();  // a lost session ends the run by itself
}

void WorkerRun::TellStart(bool resumed) const {
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

absl::Status WorkerRun::TrainToTheEnd() {
  Asked asked;  // steps that are already launched are finished
  int64_t launched = result_.step;
  while (result_.step < config_.steps() && !asked.stop) {
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

bool WorkerRun::SavesAfter(int64_t step) const {
  int64_t every = config_.checkpoint().every_steps();
  return step == config_.steps() || (every > 0 && step % every == 0);
}

absl::Status WorkerRun::CollectStep(Asked* asked) {
  ZF_ASSIGN_OR_RETURN(TrainingRun::StepOutcome outcome, run_->Collect());
  ZF_KILL_POINT("worker/first-step");
  result_.step = outcome.event.step();
  status_.SetStep(result_.step);
  status_.SetPace(run_->pace());
  asked->stop = asked->stop || outcome.stop;
  asked->save = asked->save || outcome.save;
  sending_somewhere_ = outcome.sending;
  if (run_->mesh().rank() == 0 && !outcome.peak_note.empty()) options_.note(outcome.peak_note);
  v1::WorkerMessage message;
  *message.mutable_event()->mutable_step() = outcome.event;
  options_.event(message.event());
  return run_->mesh().rank() == 0 ? Send(std::move(message)) : absl::OkStatus();
}

absl::Status WorkerRun::AfterStep(int64_t step, const Asked& asked) {
  if (run_->EvaluatesAfter(step)) {
    ZF_ASSIGN_OR_RETURN(v1::EvaluateEvent evaluation, run_->Evaluate(step));
    v1::WorkerMessage message;
    *message.mutable_event()->mutable_evaluate() = evaluation;
    metrics_.Evaluated(evaluation.loss());
    options_.event(message.event());
    if (run_->mesh().rank() == 0) ZF_RETURN_IF_ERROR(Send(message));
  }
  ZF_RETURN_IF_ERROR(TakeSnapshotIfDue(step));
  if (!SavesAfter(step) && !asked.stop && !asked.save) return absl::OkStatus();
  ZF_RETURN_IF_ERROR(Save({step, 0}));
  if (std::exchange(asks_for_save_, false)) parting_save_ = saved_;
  return absl::OkStatus();
}

// All ranks decide alike: on the step, and on what all know of it.
absl::Status WorkerRun::TakeSnapshotIfDue(int64_t step) {
  if (!rounds_.Due(step) || sending_somewhere_) return absl::OkStatus();
  ZF_ASSIGN_OR_RETURN(const v1::SnapshotShard shard, run_->TakeSnapshot(step));
  rounds_.Taken(shard);
  return absl::OkStatus();
}

// The end always saves. With no step left to do, what was resumed goes to this run's directory, unless it lies there:
// every rank sees the same, since a commit needs them all.
absl::Status WorkerRun::SaveWhatWasResumed() {
  if (saved_.step == result_.step || checkpoint::IsCommitted(config_.checkpoint().dir(), result_.step))
    return absl::OkStatus();
  return Save({result_.step, 0});
}

// One save at a time: storage that cannot keep up delays training, and commits do not pile up.
absl::Status WorkerRun::Save(const SaveTry& save) {
  ZF_RETURN_IF_ERROR(AwaitOutcome());
  saved_ = save;
  return run_->Save(save.step, [this, save, generation = run_->mesh().generation()](v1::ShardWritten written) {
    v1::WorkerMessage message;
    message.set_generation(generation);  // of the view it belongs to, whatever has come meanwhile
    written.set_retry(save.retry);
    *message.mutable_shard_written() = std::move(written);
    // A lost session ends the run by itself.
    session_.Send(std::move(message)).IgnoreError();
  });
}

absl::Status WorkerRun::HandleWaitingMessages() {
  while (true) {
    absl::StatusOr<v1::CoordinatorMessage> message = session_.Receive(0);
    if (absl::IsDeadlineExceeded(message.status())) return absl::OkStatus();
    ZF_RETURN_IF_ERROR(message);
    if (message->has_regroup()) return Regrouped(*message);
    if (message->has_stop()) stop_ = true;
    if (message->has_checkpoint()) HandleOutcome(message->checkpoint());
  }
}

absl::Status WorkerRun::Regrouped(const v1::CoordinatorMessage& message) {
  regroup_ = true;
  return absl::AbortedError(message.regroup().reason());
}

// A save that failed is settled, too: the coordinator has told why, and the next one tries again.
void WorkerRun::HandleOutcome(const v1::CheckpointOutcome& outcome) {
  ZF_KILL_POINT("worker/outcome");
  settled_ = std::max(settled_, SaveTry{outcome.step(), outcome.retry()});
  if (outcome.committed()) committed_step_ = std::max(committed_step_, outcome.step());
}

// The first signal stops the fleet after the step in progress: the ranks learn of it with the step's scalars.
absl::Status WorkerRun::NoticeSignal() {
  int signal = options_.stop_signal();
  if (signal == 0) return absl::OkStatus();
  if (options_.leaves_alone) {
    asks_for_save_ = !parting_save_;
    return absl::OkStatus();
  }
  stop_ = true;
  if (std::exchange(told_signal_, true)) return absl::OkStatus();
  v1::WorkerMessage message;
  message.mutable_stop_requested()->set_signal(signal);
  return Send(message);
}

absl::Status WorkerRun::SignalledEarly() {
  if (!options_.leaves_alone) return StoppedEarly("signal");
  left_ = true;
  return absl::CancelledError("left the fleet on a signal");
}

// If the save has failed, nothing is gained by waiting for another.
absl::Status WorkerRun::LeaveIfSaved() {
  if (!parting_save_ || settled_ < *parting_save_) return absl::OkStatus();
  left_ = true;
  const bool committed = committed_step_ >= parting_save_->step;
  return absl::CancelledError(absl::StrCat("left the fleet on a signal at step ", result_.step,
                                           "; the checkpoint of step ", parting_save_->step,
                                           committed ? " is committed" : " could not be stored"));
}

absl::StatusOr<v1::CoordinatorMessage> WorkerRun::Await(v1::CoordinatorMessage::BodyCase kind) {
  while (true) {
    if (!training_ && options_.stop_signal() != 0) return SignalledEarly();
    if (training_) ZF_RETURN_IF_ERROR(NoticeSignal());
    absl::StatusOr<v1::CoordinatorMessage> message = session_.Receive(kPollSeconds);
    if (absl::IsDeadlineExceeded(message.status())) continue;
    ZF_RETURN_IF_ERROR(message);
    const bool without_a_place =
        kind == v1::CoordinatorMessage::kAssignment || kind == v1::CoordinatorMessage::kWelcome;
    if (message->body_case() == kind || (without_a_place && message->has_complete())) return message;
    if (message->has_regroup()) return Regrouped(*message);
    if (message->has_stop()) {
      if (!training_) return StoppedEarly(message->stop().reason());
      stop_ = true;
    }
    if (message->has_checkpoint()) HandleOutcome(message->checkpoint());
  }
}

absl::Status WorkerRun::AwaitOutcome() {
  while (settled_ < saved_) {
    ZF_ASSIGN_OR_RETURN(v1::CoordinatorMessage message, Await(v1::CoordinatorMessage::kCheckpoint));
    HandleOutcome(message.checkpoint());
  }
  return absl::OkStatus();
}

// No later save makes up for this one, so it is tried again. Every rank hears the same outcomes, so all try the same;
// the coordinator ends the run when it has failed too often.
absl::Status WorkerRun::CommitTheLastSave() {
  ZF_RETURN_IF_ERROR(AwaitOutcome());
  double pause = options_.save_pause_seconds;
  while (committed_step_ < saved_.step) {
    ZF_RETURN_IF_ERROR(Pause(std::exchange(pause, 2 * pause)));
    ZF_RETURN_IF_ERROR(Save({saved_.step, saved_.retry + 1}));
    ZF_RETURN_IF_ERROR(AwaitOutcome());
  }
  return absl::OkStatus();
}

// The end of the view or of the run ends it.
absl::Status WorkerRun::Pause(double seconds) {
  for (double left = seconds; left > 0; left -= kPollSeconds) {
    absl::StatusOr<v1::CoordinatorMessage> message = session_.Receive(std::min(left, kPollSeconds));
    if (absl::IsDeadlineExceeded(message.status())) continue;
    ZF_RETURN_IF_ERROR(message);
    if (message->has_regroup()) return Regrouped(*message);
    if (message->has_checkpoint()) HandleOutcome(message->checkpoint());
  }
  return absl::OkStatus();
}

absl::Status WorkerRun::Finish() {
  status_.SetPhase("finishing");
  rounds_.EndView();
  ZF_RETURN_IF_ERROR(run_->Finish());
  ZF_RETURN_IF_ERROR(CommitTheLastSave());
  ZF_KILL_POINT("worker/last-save-committed");
  v1::RankReport report = run_->Report();
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

}  // namespace

absl::StatusOr<WorkerRunResult> RunWorker(const WorkerRunOptions& options, FleetSession& session, WorkerStatus& status,
                                          MetricsSink& metrics, const Clock& clock) {
  WorkerRun run(options, session, status, metrics, clock);
  absl::StatusOr<WorkerRunResult> result = run.Run();
  // Reported before the run is torn down: that waits for the device, and nobody should wait for that to learn of
  // it.
  if (!result.ok() && !run.left()) {
    // If the session is what failed, the coordinator knows already and Send fails in turn.
    v1::WorkerMessage message;
    *message.mutable_failure() = FailureOf(result.status(), status.Heartbeat().step());
    session.Send(std::move(message)).IgnoreError();
  }
  return result;
}

}  // namespace zerofleet::trainer
