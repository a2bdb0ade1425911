// Members as threads with real sessions; see coordinator_benches.h.
#include "bench/coordinator_benches.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "services/coordinator_server.h"
#include "services/session_client.h"
#include "worker/optim/optimizer.h"

namespace zerofleet::bench {
namespace {

constexpr double kDefaultHeartbeatTimeoutSeconds = 2;
constexpr double kHeartbeatsPerTimeout = 4;
constexpr double kPatienceSeconds = 60;

v1::Config BenchConfig(int members, const std::string& directory) {
  v1::Config config;
  // GPT-2 124M: it is divided, and never built.
  v1::ModelConfig& model = *config.mutable_model();
  model.set_family("gpt2");
  model.set_layers(12);
  model.set_hidden(768);
  model.set_heads(12);
  model.set_kv_heads(12);
  model.set_intermediate(3072);
  model.set_context(1024);
  model.set_vocab(50257);
  config.mutable_parallel()->set_workers(members);
  config.mutable_parallel()->set_tensor(1);
  config.mutable_optimizer()->set_name(optim::Optimizers().front().name);
  config.set_steps(1);
  config.mutable_checkpoint()->set_dir(JoinPath(directory, "checkpoints"));
  config.mutable_restart()->set_form_timeout_seconds(kPatienceSeconds);
  config.mutable_restart()->set_heartbeat_timeout_seconds(kPatienceSeconds);
  return config;
}

// One member's life without a model: it sends what a worker would send.
class SilentMember {
 public:
  explicit SilentMember(std::unique_ptr<services::SessionClient> session) : session_(std::move(session)) {}

  absl::Status ReachStart() {
    v1::WorkerMessage hello, ready, entered, loaded;
    hello.mutable_hello()->set_device("cpu");
    ZF_RETURN_IF_ERROR(session_->Send(hello));
    ZF_RETURN_IF_ERROR(Await(v1::CoordinatorMessage::kWelcome));
    ready.mutable_ready()->set_parameters(1);
    ZF_RETURN_IF_ERROR(session_->Send(ready));
    ZF_RETURN_IF_ERROR(Await(v1::CoordinatorMessage::kAssignment));
    entered.mutable_entered();
    ZF_RETURN_IF_ERROR(session_->Send(entered));
    ZF_RETURN_IF_ERROR(Await(v1::CoordinatorMessage::kLoad));
    loaded.mutable_load_result()->set_ok(true);
    ZF_RETURN_IF_ERROR(session_->Send(loaded));
    return Await(v1::CoordinatorMessage::kStart);
  }

  // Ends with Finished and its Complete, so that every heartbeat has been handled.
  absl::Status BeatAndFinish(int64_t heartbeats) {
    v1::WorkerMessage beat, finished;
    for (int64_t i = 0; i < heartbeats; ++i) {
      beat.mutable_heartbeat()->set_step(i);
      ZF_RETURN_IF_ERROR(SendWhenTaken(beat));
    }
    finished.mutable_finished()->set_step(1);
    ZF_RETURN_IF_ERROR(SendWhenTaken(finished));
    return Await(v1::CoordinatorMessage::kComplete);
  }

 private:
  // The session's queue is bounded and refuses when it is full; it empties as fast as the coordinator reads.
  absl::Status SendWhenTaken(const v1::WorkerMessage& message) {
    const double deadline = Clock::Real().MonotonicSeconds() + kPatienceSeconds;
    absl::Status status = session_->Send(message);
    while (absl::IsUnavailable(status) && Clock::Real().MonotonicSeconds() < deadline) {
      absl::SleepFor(absl::Microseconds(200));
      status = session_->Send(message);
    }
    return status;
  }

  absl::Status Await(v1::CoordinatorMessage::BodyCase kind) {
    while (true) {
      ZF_ASSIGN_OR_RETURN(v1::CoordinatorMessage message, session_->Receive(kPatienceSeconds));
      if (message.body_case() == kind) return absl::OkStatus();
    }
  }

  std::unique_ptr<services::SessionClient> session_;
};

// Runs `act` on all members at the same time. Returns the first failure.
template <typename Act>
absl::Status OnAll(std::vector<SilentMember>& members, const Act& act) {
  std::vector<absl::Status> statuses(members.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < members.size(); ++i) threads.emplace_back([&, i] { statuses[i] = act(members[i]); });
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) ZF_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CoordinatorRate> BenchCoordinator(const CoordinatorBenchOptions& options) {
  if (options.members < 1 || options.heartbeats < 1) {
    return absl::InvalidArgumentError("a coordinator bench needs at least one member and one heartbeat");
  }
  services::CoordinatorOptions coordinator;
  coordinator.config = BenchConfig(options.members, options.directory);
  coordinator.listen = "127.0.0.1:0";
  coordinator.state_dir = JoinPath(options.directory, "state");
  coordinator.resume = "none";
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<services::CoordinatorServer> server,
                      services::CoordinatorServer::Start(coordinator));
  services::SessionOptions session;
  session.coordinator = absl::StrCat("127.0.0.1:", server->port());
  std::vector<SilentMember> members;
  for (int i = 0; i < options.members; ++i) {
    ZF_ASSIGN_OR_RETURN(std::unique_ptr<services::SessionClient> connected, services::SessionClient::Connect(session));
    members.emplace_back(std::move(connected));
  }
  const Clock& clock = Clock::Real();
  const double began = clock.MonotonicSeconds();
  ZF_RETURN_IF_ERROR(OnAll(members, [](SilentMember& member) { return member.ReachStart(); }));
  const double formed = clock.MonotonicSeconds();
  ZF_RETURN_IF_ERROR(OnAll(members, [&](SilentMember& member) { return member.BeatAndFinish(options.heartbeats); }));
  const double ended = clock.MonotonicSeconds();
  members.clear();
  ZF_RETURN_IF_ERROR(server->Wait());
  return CoordinatorRate{
      .members = options.members,
      .form_seconds = formed - began,
      .heartbeats_per_second = static_cast<double>(options.members * options.heartbeats) / (ended - formed),
      .needed_per_second = options.members * kHeartbeatsPerTimeout / kDefaultHeartbeatTimeoutSeconds};
}

}  // namespace zerofleet::bench
