// Putting a coordinator together and taking it down; see coordinator_server.h.
#include "services/coordinator/coordinator_server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "coordinator/status_view.h"
#include "services/common/message_limits.h"
#include "services/common/trace.h"
#include "services/coordinator/coordinator_loop.h"
#include "services/coordinator/coordinator_service.h"
#include "services/metrics/coordinator_metrics.h"
#include "services/rpc/grpc_server.h"
#include "services/storage/checkpoint_store.h"
#include "services/storage/coordinator_state.h"
#include "services/storage/coordinator_storage.h"
#include "worker/trainer/fleet_state.h"

namespace zerofleet::services {
namespace {

// How long the last messages may take to leave (kDrain), a watcher to come, and calls to end after that. A client
// between two calls, who does not see that its connection is to be closed, also takes that time: a launcher on this
// machine does.
constexpr absl::Duration kDrain = absl::Seconds(5);
constexpr absl::Duration kWatcherPatience = absl::Seconds(20);
constexpr double kShutdownSeconds = 1, kLocalShutdownSeconds = 0.1;
// More than the second between two questions of `status --watch`.
constexpr absl::Duration kBetweenQuestions = absl::Milliseconds(1500);
// A worker's session, its previous one, which may not be known to be gone yet, and operators' calls.
constexpr size_t kConnectionsPerWorker = 4;
// The page of a larger fleet does not show which rank owns what: that alone would be megabytes.
constexpr int kMostRanksShown = 64;

// At least the heartbeat timeout: a connection that broke sooner would end a rank that still has time to send a
// heartbeat.
int AnswerTimeoutMs(double heartbeat_timeout_seconds) {
  return std::max(kKeepaliveTimeoutMs, static_cast<int>(std::min(1000 * heartbeat_timeout_seconds, 2e9)));
}

// DataLoss, which is not retried, if another coordinator has the checkpoint directory. If that cannot be found out the
// run goes on.
absl::Status CheckNoOtherHolds(const CheckpointStore& store) {
  const absl::Status held = store.CheckHeld();
  return absl::IsAlreadyExists(held) ? absl::DataLossError(absl::StrCat("checkpoint.dir: ", held.message()))
                                     : absl::OkStatus();
}

// Where a lock does not keep a second coordinator out of the checkpoint directory, none keeps it out of a state
// directory on the same file system: the holder of the one holds the other. Checked after the write, too, before
// anything depends on it: a coordinator that begins after the second check reads what was written, and if one began
// earlier, this one stops.
absl::Status WriteSharedState(const std::string& dir, const coordinator::CoordinatorState& state,
                              const CheckpointStore& store) {
  ZF_RETURN_IF_ERROR(CheckNoOtherHolds(store));
  ZF_RETURN_IF_ERROR(WriteCoordinatorState(dir, state));
  return CheckNoOtherHolds(store);
}

CoordinatorHooks MakeHooks(const CoordinatorOptions& options, CheckpointStore& store, bool one_file_system,
                           CoordinatorMetrics* metrics, RunHistory& history) {
  CoordinatorHooks hooks;
  hooks.persist = [dir = options.state_dir, &store, one_file_system](const coordinator::CoordinatorState& state) {
    return one_file_system ? WriteSharedState(dir, state, store) : WriteCoordinatorState(dir, state);
  };
  hooks.state_path = CoordinatorStatePath(options.state_dir);
  hooks.set_aside = [&store](const std::string& step_dir) { return store.SetAside(step_dir); };
  hooks.keep_flight = [dir = options.state_dir](const v1::Flight& flight) { return WriteFlight(dir, flight); };
  hooks.commit = [clock = options.clock, &store, metrics, &history](const v1::CheckpointManifest& manifest) {
    int64_t now = absl::ToUnixSeconds(clock->Now());
    absl::StatusOr<coordinator::CommittedStep> committed = store.Commit(manifest, now);
    if (committed.ok() && metrics != nullptr) metrics->SetLastCommit(now);
    if (committed.ok()) history.last_commit_unix_seconds = now;
    return committed;
  };
  hooks.verify = [&store](const coordinator::VerifyCheckpoint& verify) { return store.Verify(verify); };
  hooks.stored_bytes = [&store] { return store.stored_bytes(); };
  hooks.discard = [&store](const coordinator::DiscardSave& discard) { store.Discard(discard); };
  hooks.observe = [metrics, &history](const coordinator::Fleet& fleet, double now) {
    if (metrics != nullptr) metrics->Observe(fleet, now);
    history.goodput = coordinator::GoodputRatio(fleet, now);
    const v1::StepEvent& step = fleet.training.last_step_event;
    if (step.step() > 0) history.losses.Add({step.step(), step.loss(), step.tokens_per_second()});
  };
  hooks.logs = [logger = options.logger](LogLevel level) { return logger != nullptr && logger->Logs(level); };
  hooks.log = [logger = options.logger](LogLevel level, const std::string& line) {
    if (logger != nullptr) logger->Log(level, line);
  };
  hooks.traced = [logger = options.logger](const std::string& trace_id) {
    if (logger != nullptr) logger->SetTrace(trace_id);
  };
  return hooks;
}

}  // namespace

CoordinatorServer::CoordinatorServer(const CoordinatorOptions& options)
    : supervised_(options.supervised), watched_(options.watched), run_(options.run), clock_(*options.clock) {}

absl::StatusOr<std::unique_ptr<CoordinatorServer>> CoordinatorServer::Start(const CoordinatorOptions& options) {
  ZF_ASSIGN_OR_RETURN(CoordinatorStorage storage, OpenCoordinatorStorage({.config = options.config,
                                                                          .state_dir = options.state_dir,
                                                                          .resume = options.resume,
                                                                          .patience = options.directory_patience,
                                                                          .tick = options.directory_check_interval,
                                                                          .logger = options.logger,
                                                                          .clock = options.clock}));
  coordinator::CoordinatorState& state = storage.state;
  ResumePlan& plan = storage.plan;
  coordinator::FleetParameters parameters;
  parameters.config = options.config;
  ZF_RETURN_IF_ERROR(trainer::AddTrainingState(&parameters));
  parameters.version = options.version;
  parameters.revision = options.revision;
  parameters.run = options.run;
  parameters.previous_generation = storage.previous_generation;
  parameters.candidates = std::move(plan.candidates);
  parameters.may_fall_back = plan.may_fall_back;
  parameters.unreadable = plan.unreadable;
  parameters.notices = std::move(plan.notices);
  // They belong to the same run; a run that starts from elsewhere has no rollbacks, and another id.
  if (options.resume == "auto") parameters.rollbacks = std::move(state.rollbacks);
  if (options.resume == "auto") parameters.run_id = std::move(state.run_id);
  if (parameters.run_id.empty()) parameters.run_id = NewTraceId();  // a trace id is as random and as long as a run id
  const bool all_committed =
      !parameters.candidates.empty() && parameters.candidates.front().step >= options.config.steps();
  parameters.ended_before = options.supervised && options.resume == "auto" && all_committed;

  std::unique_ptr<CoordinatorServer> server(new CoordinatorServer(options));
  server->state_lock_ = std::move(storage.state_lock);
  server->store_ = std::move(storage.store);
  server->history_.last_commit_unix_seconds = plan.newest_unix_seconds;
  if (options.registry != nullptr) {
    server->metrics_ = std::make_unique<CoordinatorMetrics>(*options.registry);
    server->metrics_->SetLastCommit(plan.newest_unix_seconds);
  }
  server->loop_ = std::make_unique<CoordinatorLoop>(
      std::move(parameters),
      MakeHooks(options, *server->store_, storage.one_file_system, server->metrics_.get(), server->history_),
      *options.clock);
  server->refusals_ = std::make_shared<Refusals>(
      Refusals::Sinks{.count =
                          [metrics = server->metrics_.get()](const char* cause) {
                            if (metrics != nullptr) metrics->CountRefusal(cause);
                          },
                      .log = [loop = server->loop_.get()](const std::string& line) { loop->Warn(line); }},
      *options.clock);
  server->service_ =
      std::make_unique<CoordinatorService>(*server->loop_, AccessControl(options.access), *server->refusals_);
  GrpcServerOptions grpc_options;
  grpc_options.listen = options.listen;
  grpc_options.tls = options.tls;
  grpc_options.observer = ObserverOf(server->refusals_);
  grpc_options.most_message_bytes = MostMessageBytes(options.config);
  grpc_options.answer_timeout_ms = AnswerTimeoutMs(options.config.restart().heartbeat_timeout_seconds());
  grpc_options.services = {server->service_.get()};
  grpc_options.health_names = {v1::Coordinator::service_full_name()};
  grpc_options.turned_away = TurnedAwayTo(server->refusals_);
  const size_t members = options.config.parallel().workers() + options.config.restart().spares();
  grpc_options.most_connections += kConnectionsPerWorker * members;
  grpc_options.most_per_address += kConnectionsPerWorker * members;  // all workers may be behind one address
  ZF_ASSIGN_OR_RETURN(server->server_, StartGrpcServer(grpc_options));
  server->loop_->StartThreads();
  server->directory_watch_ =
      std::thread([server = server.get(), dir = options.config.checkpoint().dir(),
                   interval = options.directory_check_interval] { server->WatchDirectory(dir, interval); });
  return server;
}

CoordinatorServer::~CoordinatorServer() {
  closing_.Notify();
  if (directory_watch_.joinable()) directory_watch_.join();
  if (server_ != nullptr) server_->Shutdown(0);
  if (refusals_ != nullptr) refusals_->Detach();
}

void CoordinatorServer::WatchDirectory(const std::string& dir, absl::Duration interval) {
  std::string told;
  while (!closing_.WaitForNotificationWithTimeout(interval)) {
    const absl::Status held = state_lock_->Renew().status();
    if (absl::IsAlreadyExists(held)) {
      return loop_->StorageIsLost(absl::NotFoundError(absl::StrCat("--state-dir: ", held.message())));
    }
    const absl::StatusOr<bool> made = store_->Renew();
    const std::string why(made.status().message());
    if (absl::IsAlreadyExists(made.status())) {
      return loop_->StorageIsLost(absl::NotFoundError(absl::StrCat("checkpoint.dir: ", why)));
    }
    std::string notice;
    if (absl::IsDataLoss(made.status()) || absl::IsUnavailable(made.status())) {
      notice = absl::StrCat("checkpoint.dir: ", why, "; no save can succeed meanwhile");
    } else if (!made.ok()) {
      notice = absl::StrCat("checkpoint.dir: ", dir, " was removed, and no save can succeed: ", why);
    } else if (*made) {
      notice = absl::StrCat("checkpoint.dir: ", dir, " was removed and is made anew, empty; the next save goes there");
    }
    if (!notice.empty() && notice != told) loop_->NoteStorage(notice, made.ok());
    told = notice;
  }
}

absl::Status CoordinatorServer::Answers() { return server_->Answers(kProbeLimit); }

int CoordinatorServer::port() const { return server_->port(); }

absl::Status CoordinatorServer::Wait() {
  absl::Status status = loop_->WaitForEnd();
  const absl::Time ended = absl::Now();
  if (abandoned_) {
    server_->Shutdown(0);
    return status;
  }
  if (status.ok()) store_->RemoveUnfinished(loop_->GetStatus().generation());
  if (watched_) loop_->events().WaitUntilHeld(kWatcherPatience);
  absl::Time deadline = absl::Now() + kDrain;
  loop_->WaitUntilNoSessions(kDrain);
  loop_->events().WaitUntilUnfollowed(std::max(absl::ZeroDuration(), deadline - absl::Now()));
  if (supervised_ && status.ok()) return status;
  AwaitTheLastQuestion(ended);
  server_->Shutdown(watched_ ? kLocalShutdownSeconds : kShutdownSeconds);
  return status;
}

void CoordinatorServer::AwaitTheLastQuestion(absl::Time ended) {
  if (service_->last_asked() < ended - kBetweenQuestions) return;
  while (service_->last_asked() < ended && absl::Now() < ended + kBetweenQuestions) {
    absl::SleepFor(absl::Milliseconds(20));
  }
}

absl::Status CoordinatorServer::Follow(const std::function<void(const v1::Event&)>& on_event) {
  return loop_->events().Follow(on_event);
}

StatusPicture CoordinatorServer::Picture() {
  StatusPicture picture;
  v1::GetStatusRequest request;
  request.set_partitions(loop_->world_size() <= kMostRanksShown);
  request.set_flight(true);
  picture.status = loop_->GetStatus(request);
  picture.run = run_;
  picture.losses = history_.losses.points();
  picture.goodput = history_.goodput;
  picture.now_unix_seconds = absl::ToUnixSeconds(clock_.Now());
  picture.last_commit_unix_seconds = history_.last_commit_unix_seconds;
  return picture;
}

void CoordinatorServer::Stop(const std::string& reason) { loop_->Stop(reason); }

void CoordinatorServer::Abandon(const std::string& reason) {
  abandoned_ = true;
  loop_->Abandon(reason);
}

}  // namespace zerofleet::services
