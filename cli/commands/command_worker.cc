// `zerofleet worker`: one rank of a fleet as a process of its own.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "cli/commands/command.h"
#include "cli/commands/flag_checks.h"
#include "cli/commands/identity_flags.h"
#include "cli/commands/launch_environment.h"
#include "cli/commands/tls_flags.h"
#include "cli/commands/trace_flags.h"
#include "cli/launcher/exit_watchdog.h"
#include "cli/launcher/inherited_file.h"
#include "cli/launcher/launch_guard.h"
#include "cli/launcher/local_fleet.h"
#include "cli/launcher/local_workers.h"
#include "cli/launcher/stop_signals.h"
#include "cli/report/progress.h"
#include "services/common/address.h"
#include "services/common/build_info.h"
#include "services/common/logging.h"
#include "services/common/refusals.h"
#include "services/common/trace.h"
#include "services/metrics/metrics_exporter.h"
#include "services/metrics/worker_metrics.h"
#include "services/security/token.h"
#include "services/session/operator_client.h"
#include "services/session/session_client.h"
#include "services/session/snapshot_client.h"
#include "services/session/worker_service.h"
#include "worker/collective/network.h"
#include "worker/device/device.h"
#include "worker/device/profile/traced_device.h"
#include "worker/trainer/snapshot_store.h"
#include "worker/trainer/step_trace.h"
#include "worker/trainer/worker_run.h"

namespace zerofleet::cli {
namespace {

struct WorkerFlags {
  std::string coordinator, device = "auto", listen = "127.0.0.1:0", log_level;
  std::string token_file;
  bool quiet = false, supervised = false;
  std::string interface, advertise, node, metrics_listen = "0.0.0.0";
  int threads = 0;  // 0: the machine's cores, shared equally among --local workers
  int metrics_port = 0, local = 0, max_restarts = 3;
  std::optional<int> local_rank;
  bool metrics_tls = false;
  services::TlsFiles tls;
  std::string trace, trace_steps;
};

bool IsEverywhere(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

// The address at which others find the metrics: --advertise, else the address that they are served on or, if that is a
// wildcard, this host's name.
services::Address MetricsAddress(const WorkerFlags& flags) {
  if (!flags.advertise.empty()) return {flags.advertise, flags.metrics_port};
  return {IsEverywhere(flags.metrics_listen) ? services::HostName() : flags.metrics_listen, flags.metrics_port};
}

// The address at which other workers find this one's service, which listens on `port`.
services::Address ServiceAddress(const WorkerFlags& flags, int port) {
  const absl::StatusOr<services::Address> listen = services::ParseAddress(flags.listen);
  if (listen.ok() && !IsEverywhere(listen->host)) return {listen->host, port};
  return {flags.advertise.empty() ? services::HostName() : flags.advertise, port};
}

v1::Hello MakeHello(const WorkerFlags& flags) {
  v1::Hello hello;
  hello.set_build_id(services::GetBuildInfo().build_id);
  hello.set_version(services::GetBuildInfo().version);
  const std::string node = NodeName(LaunchEnvironment::Current(), flags.node);
  hello.set_host(!flags.advertise.empty() ? flags.advertise : node.empty() ? services::HostName() : node);
  if (node != hello.host()) hello.set_node_name(node);
  hello.set_pid(getpid());
  hello.set_incarnation(services::MakeToken());
  if (flags.metrics_port != 0) hello.set_metrics_address(MetricsAddress(flags).ToString());
  return hello;
}

// Serves the metrics; null if no port was given.
absl::StatusOr<std::unique_ptr<services::MetricsExporter>> StartExporter(const WorkerFlags& flags,
                                                                         const trainer::WorkerStatus& status,
                                                                         services::Logger& logger) {
  if (flags.metrics_port == 0) return nullptr;
  services::MetricsExporterOptions options;
  options.host = flags.metrics_listen;
  options.port = flags.metrics_port;
  ZF_ASSIGN_OR_RETURN(options.tls, MetricsTls(flags.metrics_tls, flags.tls));
  options.warn = [&logger](const std::string& line) { logger.Warning(line); };
  options.ready = [&status] {
    const std::string phase = status.phase();
    return phase == "training" ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("worker is ", phase));
  };
  return services::MetricsExporter::Start(options);
}

// How to serve snapshots to other workers. A worker that verifies the coordinator but has no certificate of its own
// could only serve in plaintext, so it serves none.
services::WorkerServiceOptions ServiceOptions(const WorkerFlags& flags, const std::string& token,
                                              std::shared_ptr<services::Refusals> refusals,
                                              std::shared_ptr<trainer::SnapshotStore> snapshots) {
  services::WorkerServiceOptions options;
  options.listen = flags.listen;
  options.tls = flags.tls;
  options.refusals = std::move(refusals);
  if (services::PeerTls(flags.tls).ok()) options.snapshots = std::move(snapshots);
  options.token = token;
  return options;
}

absl::StatusOr<std::unique_ptr<services::SessionClient>> Connect(const WorkerFlags& flags, const std::string& token,
                                                                 StopSignals& signals, services::Logger& logger) {
  services::SessionOptions options;
  options.coordinator = flags.coordinator;
  options.tls = flags.tls;
  options.token = token;
  options.trace_id = [&logger] { return logger.trace_id(); };
  options.cancelled = [&signals] { return signals.First() != 0; };
  options.note = [&logger](const std::string& line) { logger.Warning(line); };
  absl::StatusOr<std::unique_ptr<services::SessionClient>> session = services::SessionClient::Connect(options);
  if (!session.ok()) return signals.Stopped(session.status());
  return session;
}

absl::StatusOr<int> RunWorkerCommand(const WorkerFlags& flags, const Output& output) {
  // Must be first: it changes the environment, which no other thread may read meanwhile.
  collective::KeepLaunchOrder();
  if (!flags.interface.empty()) {
    ZF_RETURN_IF_ERROR(Annotate(collective::UseNetworkInterface(flags.interface), "--interface"));
  }
  ExitWatchdog watchdog;  // destroyed after everything else
  StopSignals signals;
  ZF_ASSIGN_OR_RETURN(const services::LogLevel level, services::LogLevelFromFlagOrEnvironment(flags.log_level));
  ZF_ASSIGN_OR_RETURN(const int local_rank, LocalRank(LaunchEnvironment::Current(), flags.local_rank));
  ZF_ASSIGN_OR_RETURN(const std::optional<StepRange> traced, TracedStepsOf(flags.trace, flags.trace_steps));
  if (traced) ZF_RETURN_IF_ERROR(Annotate(ReplaceableFile(flags.trace).status(), "--trace"));
  MakeRoomForClients();
  // A missing device is reported before waiting for a coordinator; the device is set up once there is a run for it.
  ZF_ASSIGN_OR_RETURN(const std::string device, device::ResolveDeviceKind(flags.device));
  ZF_ASSIGN_OR_RETURN(const std::string token, ReadToken(flags.token_file));
  signal(SIGPIPE, SIG_IGN);  // a closed pipe must not end the run
  services::Logger logger(level);
  Progress progress(output.err, Clock::Real(), output.err_terminal);
  const absl::Cleanup close_progress = [&] { progress.Close(); };
  const auto say = [&](const std::string& line) {
    logger.Info(line);
    if (!flags.quiet) progress.Note(line);
  };
  trainer::WorkerStatus status;
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<services::MetricsExporter> exporter, StartExporter(flags, status, logger));
  // Without a port the figures are collected but never read, so that the trainer needs no special case.
  const std::unique_ptr<services::WorkerMetrics> metrics =
      exporter == nullptr ? std::make_unique<services::WorkerMetrics>()
                          : std::make_unique<services::WorkerMetrics>(exporter->registry());
  const auto refusals = std::make_shared<services::Refusals>(
      services::Refusals::Sinks{.count = [&metrics](const char* cause) { metrics->CountRefusal(cause); },
                                .log = [&logger](const std::string& line) { logger.Warning(line); }},
      Clock::Real());
  const absl::Cleanup detach = [&refusals] { refusals->Detach(); };
  if (exporter != nullptr) exporter->TellOfRefused(refusals);
  const auto snapshots = std::make_shared<trainer::SnapshotStore>();
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<services::WorkerService> service,
                      services::WorkerService::Start(ServiceOptions(flags, token, refusals, snapshots)));
  logger.Info(absl::StrCat("worker service on port ", service->port()));
  if (exporter != nullptr) exporter->SetHealth([&service] { return service->Answers(); });
  const absl::Cleanup forget_health = [&exporter] {
    if (exporter != nullptr) exporter->SetHealth(nullptr);
  };

  say(absl::StrCat("connecting to the coordinator at ", flags.coordinator));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<services::SessionClient> session, Connect(flags, token, signals, logger));
  say(absl::StrCat("connected to the coordinator at ", flags.coordinator, "; waiting for the fleet to form"));
  trainer::WorkerRunOptions options;
  services::SnapshotClient peers(
      {.tls = flags.tls, .token = token, .trace_id = [&logger] { return logger.trace_id(); }});
  options.snapshots = snapshots;
  options.peers = &peers;
  options.hello = MakeHello(flags);
  options.hello.set_service_address(ServiceAddress(flags, service->port()).ToString());
  options.device = {
      .kind = device, .threads = flags.threads > 0 ? flags.threads : ThreadsPerWorker(1), .local_rank = local_rank};
  options.stop_signal = [&signals] { return signals.First(); };
  options.leaves_alone = flags.supervised;
  options.refused_peer = [refusals](const std::string& line) { refusals->AddPeer(line); };
  options.traced = [&logger](const std::string& trace_id) {
    logger.SetTrace(services::IsTraceId(trace_id) ? trace_id : "");
  };
  options.placed = [&](int rank, uint64_t generation, const std::string& line) {
    logger.SetRank(rank);
    logger.SetGeneration(generation);
    say(line);
  };
  options.event = [&](const v1::Event& event) {
    if (!flags.quiet) progress.Show(event);
  };
  options.note = [&logger](const std::string& line) { logger.Warning(line); };
  if (output.host != nullptr) options.passes = output.host->passes;
  options.lost = [&watchdog](const absl::Status& reason) { watchdog.Arm(reason); };
  std::unique_ptr<trainer::StepTrace> trace;
  if (traced) {
    trace = std::make_unique<trainer::StepTrace>(
        trainer::TracedSteps{traced->first, traced->last}, Clock::Real(), [&](const std::string& json) {
          const absl::StatusOr<std::string> file = ReplaceableFile(flags.trace);
          const std::string temporary = absl::StrCat(file.ok() ? *file : "", ".tmp");
          const absl::Status written = file.ok() ? WriteFileAtomically(*file, json, temporary) : file.status();
          if (written.ok()) return;
          if (file.ok()) RemoveOne(temporary).IgnoreError();  // checkpoints may need the room
          logger.Warning(absl::StrCat("--trace: ", written.message()));
        });
    options.trace = trace.get();
    options.create_device =
        [&trace](const device::DeviceOptions& of) -> absl::StatusOr<std::unique_ptr<device::Device>> {
      ZF_ASSIGN_OR_RETURN(std::unique_ptr<device::Device> created, device::CreateDevice(of));
      return device::TraceOps(std::move(created), *trace);
    };
  }
  const absl::StatusOr<trainer::WorkerRunResult> result =
      trainer::RunWorker(options, *session, status, *metrics, Clock::Real());
  progress.Close();
  ZF_RETURN_IF_ERROR(signals.Stopped(result.status()));
  logger.SetStep(result->step);
  say(absl::StrCat("finished at step ", result->step, result->stopped ? ", stopped" : ""));
  return result->stopped && signals.First() != 0 ? StopExitCode(signals.First()) : 0;
}

// The arguments that were given, except those that --local decides for each worker.
std::vector<std::string> GivenArguments(const CLI::App& command) {
  std::vector<std::string> arguments = {"worker"};
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    const bool own = name == "--local" || name == "--max-restarts" || name == "--metrics-port" || name == "--threads" ||
                     name == "--token-file" || name == "--quiet" || name == "--trace";
    if (own || option->count() == 0) continue;
    arguments.push_back(name);
    if (option->get_expected_max() > 0) arguments.push_back(option->as<std::string>());
  }
  return arguments;
}

// Whether a coordinator answers and does not say that the run is over.
bool RunGoesOn(services::OperatorClient& coordinator) {
  constexpr double kReachSeconds = 1, kStatusSeconds = 2;
  if (!coordinator.WaitForCoordinator(kReachSeconds)) return false;
  const absl::StatusOr<v1::GetStatusResponse> status = coordinator.GetStatus(kStatusSeconds);
  // Operators may need another token: a coordinator that refuses the call is still there.
  if (!status.ok()) return !absl::IsUnavailable(status.status()) && !absl::IsDeadlineExceeded(status.status());
  return status->phase() != "failed" && status->phase() != "done";
}

absl::StatusOr<int> RunLocal(const WorkerFlags& flags, const std::vector<std::string>& given, const Output& output) {
  StopSignals signals;
  ZF_RETURN_IF_ERROR(CheckAloneOnNode(LaunchEnvironment::Current(), flags.local));
  if (flags.local_rank)
    return absl::InvalidArgumentError("--local-rank: --local numbers its workers itself; leave it out");
  ZF_ASSIGN_OR_RETURN(const services::Address listen, services::ParseAddress(flags.listen));
  if (listen.port != 0 && flags.local > 1) {
    return absl::InvalidArgumentError(absl::StrCat("--listen: ", flags.local, " workers cannot share port ",
                                                   listen.port, "; give port 0, and each takes a free one"));
  }
  if (flags.metrics_port + flags.local - 1 > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("--metrics-port: must leave a port for each of ", flags.local,
                                                   " workers, up to 65535; got ", flags.metrics_port));
  }
  ZF_ASSIGN_OR_RETURN(const std::optional<StepRange> traced, TracedStepsOf(flags.trace, flags.trace_steps));
  const auto trace_of = [&](int number) { return flags.local > 1 ? TraceOfWorker(flags.trace, number) : flags.trace; };
  for (int number = 0; traced && number < flags.local; ++number) {
    ZF_RETURN_IF_ERROR(Annotate(ReplaceableFile(trace_of(number)).status(), "--trace"));
  }
  ZF_RETURN_IF_ERROR(device::ResolveDeviceKind(flags.device).status());
  ZF_ASSIGN_OR_RETURN(const std::string token, ReadToken(flags.token_file));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<services::OperatorClient> coordinator,
                      services::OperatorClient::Create(flags.coordinator, flags.tls, token));
  std::unique_ptr<InheritedFile> token_file;
  if (!token.empty()) {
    ZF_ASSIGN_OR_RETURN(token_file, InheritedFile::Create(token));
  }
  LocalWorkersOptions options;
  options.workers = flags.local;
  options.max_restarts = flags.max_restarts;
  options.file = token_file.get();
  options.arguments = [&](int number) {
    std::vector<std::string> arguments = given;
    const int threads = flags.threads > 0 ? flags.threads : ThreadsPerWorker(flags.local);
    arguments.insert(arguments.end(), {"--local-rank", absl::StrCat(number), "--threads", absl::StrCat(threads)});
    if (flags.metrics_port != 0) {
      arguments.insert(arguments.end(), {"--metrics-port", absl::StrCat(flags.metrics_port + number)});
    }
    if (traced) arguments.insert(arguments.end(), {"--trace", trace_of(number)});
    if (token_file != nullptr) arguments.insert(arguments.end(), {"--token-file", InheritedFile::kPath});
    if (flags.quiet || number > 0) arguments.push_back("--quiet");  // all workers show the same run, so one is enough
    return arguments;
  };
  options.command = output.command();
  options.run_goes_on = [&] { return RunGoesOn(*coordinator); };
  options.note = [&output](const std::string& line) { output.err << line << std::endl; };
  return RunLocalWorkers(options, signals);
}

}  // namespace

void AddWorkerCommand(CLI::App& app, CommandBody& body) {
  auto flags = std::make_shared<WorkerFlags>();
  CLI::App* command = app.add_subcommand("worker", "Run one rank of a fleet until the run has ended.");
  command->add_option("--coordinator", flags->coordinator, "HOST:PORT of the coordinator; required")
      ->type_name("HOST:PORT");
  command->add_option("--device", flags->device, "auto, cpu or cuda")
      ->type_name("auto|cpu|cuda")
      ->capture_default_str();
  command
      ->add_option("--threads", flags->threads,
                   "Compute threads on the CPU; by default the cores, shared out among the workers of --local")
      ->check(CLI::Range(1, 1024));
  command
      ->add_option("--local", flags->local,
                   "Run N workers, numbered from 0, and restart one that dies; once per node, in torchrun's place")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  command->add_option("--max-restarts", flags->max_restarts, "With --local: how often each worker is started again")
      ->type_name("N")
      ->check(CLI::Range(0, 1'000'000))
      ->needs("--local")
      ->capture_default_str();
  command
      ->add_option("--local-rank", flags->local_rank,
                   "This worker's number on its host, from 0: it takes that one of the visible GPUs; else $LOCAL_RANK "
                   "of torchrun, $SLURM_LOCALID of srun, or 0")
      ->type_name("N")
      ->check(CLI::Range(0, kMostLocalRank));
  command->add_option("--listen", flags->listen, "HOST:PORT of this worker's own service")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  command
      ->add_option("--interface", flags->interface,
                   "Network interface for collectives, such as eth0; else all, or as UCX_NET_DEVICES says")
      ->type_name("NAME");
  command
      ->add_option("--advertise", flags->advertise,
                   "Name or address of this host that others see and scrape; else its host name")
      ->check(PlainName())
      ->type_name("HOST");
  command
      ->add_option("--node", flags->node,
                   "Name of the machine, which workers on it share, where --advertise names a part of it, such as a "
                   "pod; else as Slurm says, or the host")
      ->check(PlainName())
      ->type_name("NAME");
  command
      ->add_option("--metrics-port", flags->metrics_port,
                   "Serve Prometheus metrics on this port; worker i of --local on the port plus i")
      ->check(CLI::Range(1, 65535));
  AddMetricsTlsFlag(*command, flags->metrics_tls);
  command->add_option("--metrics-listen", flags->metrics_listen, "IP address to serve metrics on")
      ->capture_default_str();
  command->add_option("--log-level", flags->log_level, "debug, info, warning or error; else $ZEROFLEET_LOG_LEVEL");
  command->add_flag("--quiet", flags->quiet, "Show no progress on stderr");
  command->add_flag("--supervised", flags->supervised,
                    "Something starts another worker in this one's place, such as Kubernetes or systemd: a signal does "
                    "not stop the run; this worker asks for a checkpoint, and leaves alone");
  AddTraceFlags(*command, "this worker's part of a trace (with --local a file each, numbered)", flags->trace,
                flags->trace_steps);
  AddTokenFlag(*command, flags->token_file);
  AddClientTlsFlags(*command, flags->tls);
  command->footer(
      "Example:\n  zerofleet worker --coordinator 10.0.0.1:7070 --threads 8\n"
      "  zerofleet worker --coordinator 10.0.0.1:7070 --local 8");
  command->callback([flags, command, &body] {
    body = [flags, given = GivenArguments(*command)](const Output& output) -> absl::StatusOr<int> {
      ZF_RETURN_IF_ERROR(CheckCoordinatorGiven(LaunchEnvironment::Current(), flags->coordinator));
      return flags->local > 0 ? RunLocal(*flags, given, output) : RunWorkerCommand(*flags, output);
    };
  });
}

}  // namespace zerofleet::cli
