// `zerofleet worker`: one rank of a fleet as a process of its own.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cli/command.h"
#include "cli/exit_watchdog.h"
#include "cli/stop_signals.h"
#include "cli/tls_flags.h"
#include "services/build_info.h"
#include "services/logging.h"
#include "services/metrics_exporter.h"
#include "services/session_client.h"
#include "services/worker_metrics.h"
#include "services/worker_service.h"
#include "worker/device/device.h"
#include "worker/trainer/worker_run.h"

namespace zerofleet {
namespace {

struct WorkerFlags {
  std::string coordinator, device = "auto", listen = "127.0.0.1:0", log_level;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  int metrics_port = 0, local_rank = 0;
  TlsFiles tls;
};

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

v1::Hello MakeHello(const WorkerFlags& flags) {
  v1::Hello hello;
  hello.set_build_id(GetBuildInfo().build_id);
  hello.set_version(GetBuildInfo().version);
  hello.set_host(HostName());
  hello.set_pid(getpid());
  if (flags.metrics_port != 0) hello.set_metrics_address(absl::StrCat(HostName(), ":", flags.metrics_port));
  return hello;
}

absl::StatusOr<int> RunWorkerCommand(const WorkerFlags& flags) {
  ExitWatchdog watchdog;  // until all else is gone
  StopSignals signals;
  ZF_ASSIGN_OR_RETURN(const LogLevel level, LogLevelFromFlagOrEnvironment(flags.log_level));
  // A device that is not there is said before a coordinator is waited for; it is set up once there is a run for it.
  ZF_ASSIGN_OR_RETURN(const std::string device, ResolveDeviceKind(flags.device));
  Logger logger(level);
  WorkerStatus status;
  std::unique_ptr<MetricsExporter> exporter;
  if (flags.metrics_port != 0) {
    MetricsExporterOptions options;
    options.port = flags.metrics_port;
    options.ready = [&status] {
      const std::string phase = status.Snapshot().phase();
      return phase == "training" ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("worker is ", phase));
    };
    ZF_ASSIGN_OR_RETURN(exporter, MetricsExporter::Start(options));
  }
  // Without a port the figures are kept and nobody reads them: the trainer does not know the difference.
  const std::unique_ptr<WorkerMetrics> metrics =
      exporter == nullptr ? std::make_unique<WorkerMetrics>() : std::make_unique<WorkerMetrics>(exporter->registry());
  WorkerServiceOptions service_options;
  service_options.listen = flags.listen;
  service_options.tls = flags.tls;
  service_options.status = [&status] { return status.Snapshot(); };
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<WorkerService> service, WorkerService::Start(service_options));
  logger.Info(absl::StrCat("worker service on port ", service->port(), ", coordinator ", flags.coordinator));

  SessionOptions session_options;
  session_options.coordinator = flags.coordinator;
  session_options.tls = flags.tls;
  session_options.cancelled = [&signals] { return signals.First() != 0; };
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<SessionClient> session, SessionClient::Connect(session_options));
  WorkerRunOptions options;
  options.hello = MakeHello(flags);
  options.device = {.kind = device, .threads = flags.threads, .local_rank = flags.local_rank};
  options.stop_signal = [&signals] { return signals.First(); };
  options.placed = [&logger](int rank, uint64_t generation, const std::string& line) {
    logger.SetRank(rank);
    logger.SetGeneration(generation);
    logger.Info(line);
  };
  options.lost = [&watchdog](const absl::Status& reason) { watchdog.Arm(reason); };
  ZF_ASSIGN_OR_RETURN(const WorkerRunResult result, RunWorker(options, *session, status, *metrics, Clock::Real()));
  logger.SetStep(result.step);
  logger.Info(absl::StrCat("finished at step ", result.step, result.stopped ? ", stopped" : ""));
  return 0;
}

}  // namespace

void AddWorkerCommand(CLI::App& app, CommandBody& body) {
  auto flags = std::make_shared<WorkerFlags>();
  CLI::App* command = app.add_subcommand("worker", "Run one rank of a fleet until the run has ended.");
  command->add_option("--coordinator", flags->coordinator, "HOST:PORT of the coordinator")->required();
  command->add_option("--device", flags->device, "auto, cpu or cuda")->capture_default_str();
  command->add_option("--threads", flags->threads, "Compute threads on the CPU")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--local-rank", flags->local_rank,
                   "This worker's number on its host, from 0: it takes that one of the visible GPUs")
      ->envname("LOCAL_RANK")
      ->check(CLI::Range(0, 1023))
      ->capture_default_str();
  command->add_option("--listen", flags->listen, "HOST:PORT of this worker's own service")->capture_default_str();
  command->add_option("--metrics-port", flags->metrics_port, "Serve Prometheus metrics there")
      ->check(CLI::Range(1, 65535));
  command->add_option("--log-level", flags->log_level, "debug, info, warning or error; else $ZEROFLEET_LOG_LEVEL");
  AddClientTlsFlags(*command, flags->tls);
  command->footer("Example:\n  zerofleet worker --coordinator 10.0.0.1:7070 --threads 8");
  command->callback([flags, &body] { body = [flags](const Output&) { return RunWorkerCommand(*flags); }; });
}

}  // namespace zerofleet
