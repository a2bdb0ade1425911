// Joining, meeting the others again and again, and messages that are waited for; see worker_life.h.
#include "worker/trainer/worker_life.h"

#include <limits>
#include <utility>

#include "base/kill_point.h"
#include "base/status.h"
#include "worker/collective/factory.h"
#include "worker/trainer/failure_report.h"
#include "worker/zero/divergence.h"

namespace zerofleet::trainer {

absl::StatusOr<WorkerRunResult> WorkerLife::Run() {
  absl::StatusOr<WorkerRunResult> result = RunToTheEnd();
  // Peers may be gone for good: operations still posted must not wait for them.
  if (!result.ok()) {
    options_.lost(result.status());
    status_.Abort(result.status());
  }
  return result;
}

absl::StatusOr<WorkerRunResult> WorkerLife::RunToTheEnd() {
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

absl::Status WorkerLife::Join() {
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

absl::Status WorkerLife::TakePartInAView() {
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

absl::Status WorkerLife::LeaveView(const absl::Status& why) {
  if (!regroup_) {
    // A failed collective is not this worker's fault: the coordinator knows whose it was, or finds out.
    const bool of_the_view = absl::IsUnavailable(why) || absl::IsAborted(why) || absl::IsDeadlineExceeded(why);
    const bool goes_back = config_.on_divergence() == "rollback" && zero::DivergenceOf(why).has_value();
    if ((!of_the_view && !goes_back) || !assigned_) return why;
    v1::WorkerMessage message;
    *message.mutable_failure() = FailureOf(why, result_.step);
    message.mutable_failure()->set_in_view(true);
    if (run_->in_view()) NameUnreachable(why, run_->mesh(), *message.mutable_failure());
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

absl::Status WorkerLife::Prepare(const v1::Config& config) {
  config_ = config;
  if (config.device() != "auto" && config.device() != device_->kind()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the configuration's device is ", config.device(), ", this worker's is ", device_->kind()));
  }
  ZF_RETURN_IF_ERROR(device::PinInstructionSet(config.device_isa()));
  const auto stopped = [this] { return options_.stop_signal() != 0; };
  absl::StatusOr<std::unique_ptr<TrainingRun>> run =
      TrainingRun::Prepare(config, *device_, clock_, metrics_, options_.snapshots,
                           {"", options_.device.threads, nullptr, stopped, std::nullopt}, options_.passes);
  if (absl::IsCancelled(run.status())) return SignalledEarly();
  if (!run.ok()) return run.status();
  run_ = *std::move(run);
  run_->SetTrace(options_.trace);
  status_.SetSaves(run_->saves());
  absl::StatusOr<DataFeed::IdCheck> ids = run_->CheckIds(options_.device.threads, stopped);
  if (absl::IsCancelled(ids.status())) return SignalledEarly();
  return ids.status();
}

absl::Status WorkerLife::MeetOthers() {
  ZF_ASSIGN_OR_RETURN(endpoint_,
                      collective::CreateCollectiveEndpoint(config_.collectives(), *device_, GroupsOf(config_)));
  ZF_KILL_POINT("worker/endpoint-made");
  v1::WorkerMessage message;
  v1::Ready* ready = message.mutable_ready();
  ready->set_config_digest(run_->config_digest());
  ready->set_parameters(run_->parameters());
  *ready->mutable_environment() = run_->environment();
  ready->set_transport_address(endpoint_->address());
  if (flight_) *ready->mutable_flight() = *std::exchange(flight_, std::nullopt);
  for (v1::SnapshotShard& shard : options_.snapshots->Held()) *ready->add_snapshots() = std::move(shard);
  ZF_RETURN_IF_ERROR(Send(message));
  ZF_KILL_POINT("worker/ready-told");
  return absl::OkStatus();
}

void WorkerLife::TellPeople(const std::string& line) {
  v1::WorkerMessage message;
  message.mutable_event()->mutable_notice()->set_message(line);
  Send(std::move(message)).IgnoreError();  // a lost session ends the run by itself
}

absl::StatusOr<v1::CoordinatorMessage> WorkerLife::Await(v1::CoordinatorMessage::BodyCase kind) {
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

absl::Status WorkerLife::Regrouped(const v1::CoordinatorMessage& message) {
  regroup_ = true;
  return absl::AbortedError(message.regroup().reason());
}

// The first signal stops the fleet after the step in progress: the other ranks learn of it with the step's scalars.
absl::Status WorkerLife::NoticeSignal() {
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

absl::Status WorkerLife::SignalledEarly() {
  if (!options_.leaves_alone) return StoppedEarly("signal");
  left_ = true;
  return absl::CancelledError("left the fleet on a signal");
}

}  // namespace zerofleet::trainer
