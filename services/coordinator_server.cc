// Putting a coordinator together and taking it down; see coordinator_server.h.
#include "services/coordinator_server.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "services/checkpoint_store.h"
#include "services/coordinator_loop.h"
#include "services/coordinator_metrics.h"
#include "services/coordinator_service.h"
#include "services/coordinator_state.h"
#include "services/grpc_server.h"

namespace zerofleet {
namespace {

// How long the last messages may take to leave, and the calls then cut off to end.
constexpr absl::Duration kDrain = absl::Seconds(5);
constexpr double kShutdownSeconds = 1;

CoordinatorHooks MakeHooks(const CoordinatorOptions& options, CoordinatorMetrics* metrics) {
  CoordinatorHooks hooks;
  hooks.persist = [dir = options.state_dir](const CoordinatorState& state) { return WriteCoordinatorState(dir, state); };
  hooks.set_aside = SetCheckpointAside;
  hooks.commit = [clock = options.clock, metrics](const v1::CheckpointManifest& manifest) {
    int64_t now = absl::ToUnixSeconds(clock->Now());
    absl::StatusOr<std::string> path = CommitCheckpoint(manifest, now);
    if (path.ok() && metrics != nullptr) metrics->SetLastCommit(now);
    return path;
  };
  hooks.observe = [metrics](const Fleet& fleet, double now) {
    if (metrics != nullptr) metrics->Observe(fleet, now);
  };
  hooks.log = options.log != nullptr ? options.log : [](const std::string&) {};
  return hooks;
}

}  // namespace

CoordinatorServer::CoordinatorServer() = default;

absl::StatusOr<std::unique_ptr<CoordinatorServer>> CoordinatorServer::Start(const CoordinatorOptions& options) {
  ZF_ASSIGN_OR_RETURN(CoordinatorState state, ReadCoordinatorState(options.state_dir));
  ZF_ASSIGN_OR_RETURN(ResumePlan plan, PlanResume(options.resume, options.config.checkpoint().dir()));
  FleetParameters parameters;
  parameters.config = options.config;
  parameters.version = options.version;
  parameters.previous_generation = std::max(state.generation, plan.newest_generation);
  parameters.candidates = std::move(plan.candidates);
  parameters.may_fall_back = plan.may_fall_back;
  parameters.unreadable = plan.unreadable;
  parameters.notices = std::move(plan.notices);

  std::unique_ptr<CoordinatorServer> server(new CoordinatorServer());
  if (options.registry != nullptr) {
    server->metrics_ = std::make_unique<CoordinatorMetrics>(*options.registry);
    server->metrics_->SetLastCommit(plan.newest_unix_seconds);
  }
  server->loop_ = std::make_unique<CoordinatorLoop>(std::move(parameters), MakeHooks(options, server->metrics_.get()),
                                                    *options.clock);
  server->service_ = std::make_unique<CoordinatorService>(*server->loop_);
  GrpcServerOptions grpc_options;
  grpc_options.listen = options.listen;
  grpc_options.tls = options.tls;
  grpc_options.services = {server->service_.get()};
  grpc_options.health_names = {v1::Coordinator::service_full_name()};
  ZF_ASSIGN_OR_RETURN(server->server_, StartGrpcServer(grpc_options));
  server->loop_->StartThreads();
  return server;
}

CoordinatorServer::~CoordinatorServer() {
  if (server_ != nullptr) server_->Shutdown(0);
}

int CoordinatorServer::port() const { return server_->port(); }

absl::Status CoordinatorServer::Wait() {
  absl::Status status = loop_->WaitForEnd();
  absl::Time deadline = absl::Now() + kDrain;
  loop_->WaitUntilNoSessions(kDrain);
  loop_->events().WaitUntilUnfollowed(std::max(absl::ZeroDuration(), deadline - absl::Now()));
  server_->Shutdown(kShutdownSeconds);
  return status;
}

void CoordinatorServer::Stop(const std::string& reason) { loop_->Stop(reason); }

}  // namespace zerofleet
