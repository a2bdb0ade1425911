// `zerofleet coordinator`: the fleet's coordinator as a process of its own.
#include <signal.h>

#include <atomic>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "cli/commands/command.h"
#include "cli/commands/flag_checks.h"
#include "cli/commands/identity_flags.h"
#include "cli/commands/input_files.h"
#include "cli/commands/run_name.h"
#include "cli/commands/tls_flags.h"
#include "cli/config/config.h"
#include "cli/launcher/exit_watchdog.h"
#include "cli/launcher/launch_guard.h"
#include "cli/launcher/local_fleet.h"
#include "cli/launcher/preflight.h"
#include "cli/launcher/stop_signals.h"
#include "cli/planner/fraction.h"
#include "cli/report/progress.h"
#include "cli/report/report.h"
#include "cli/report/run_record.h"
#include "services/common/address.h"
#include "services/common/build_info.h"
#include "services/common/logging.h"
#include "services/coordinator/coordinator_server.h"
#include "services/metrics/metrics_exporter.h"
#include "services/metrics/status_page.h"

namespace zerofleet::cli {
namespace {

constexpr double kExitSeconds = 30;              // how long a coordinator may take to exit once its run has failed
constexpr double kCoordinatorReportSeconds = 5;  // how long the reader of a pipe has for the last lines

struct CoordinatorFlags {
  std::string config, listen, state_dir, resume = "auto", log_level, report, run_name;
  std::string advertise, metrics_listen = "0.0.0.0";
  int metrics_port = 0;
  bool metrics_tls = false;
  double metrics_linger = 0;  // seconds
  bool quiet = false, supervised = false, watched = false;
  services::TlsFiles tls;
  AccessFlags access;
};

// Passes this process's first signal on to the server: as an orderly stop or, if supervised, so that the run goes on
// under the next coordinator.
class SignalForwarder {
 public:
  SignalForwarder(StopSignals& signals, services::CoordinatorServer& server, bool supervised)
      : thread_([this, &signals, &server, supervised] {
          while (!done_) {
            const int signal = signals.First();
            const std::string received = absl::StrCat("the coordinator received ", SignalName(signal));
            if (signal != 0 && supervised) return server.Abandon(received + " and leaves the run to the next one");
            if (signal != 0) return server.Stop(received);
            absl::SleepFor(absl::Milliseconds(100));
          }
        }) {}
  ~SignalForwarder() {
    done_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

// Follows the run's events on a thread of its own and passes them to the report, the progress and the record.
class RunFollower {
 public:
  RunFollower(services::CoordinatorServer& server, ReportWriter* report, Progress* progress)
      : report_(report),
        progress_(progress),
        thread_([this, &server] { status_ = server.Follow([this](const v1::Event& event) { Take(event); }); }) {}
  ~RunFollower() {
    if (thread_.joinable()) thread_.join();
  }

  // To be called once the run has ended. Returns an error if the report is not complete.
  absl::Status Finish() {
    thread_.join();
    if (report_ == nullptr) return absl::OkStatus();
    return report_->Finish(kCoordinatorReportSeconds).ok() ? Annotate(status_, "--report") : report_->status();
  }
  const RunRecord& record() const { return record_; }  // valid after Finish

 private:
  void Take(const v1::Event& event) {
    if (!record_.Add(event)) return;
    if (report_ != nullptr) report_->Write(event);
    if (progress_ != nullptr) progress_->Show(event);
  }

  ReportWriter* const report_;  // null: none is written
  Progress* const progress_;    // null: none is shown
  RunRecord record_;
  absl::Status status_;
  std::thread thread_;  // declared last: it uses the other members
};

// Serves the status page and the server's health on the metrics port while it exists.
class ServedStatusPage {
 public:
  ServedStatusPage(services::MetricsExporter& exporter, services::CoordinatorServer& server) : exporter_(exporter) {
    exporter.SetHealth([&server] { return server.Answers(); });
    exporter.AddPage(kPage, "text/html; charset=utf-8",
                     [&server] { return services::StatusPageHtml(server.Picture()); });
    exporter.AddPage(services::kStatusStyleName, "text/css; charset=utf-8", services::StatusPageStyle);
    exporter.AddPage(services::kStatusScriptName, "text/javascript; charset=utf-8", services::StatusPageScript);
  }
  ~ServedStatusPage() {
    exporter_.SetHealth(nullptr);
    for (const char* name : {kPage, services::kStatusStyleName, services::kStatusScriptName})
      exporter_.RemovePage(name);
  }
  ServedStatusPage(const ServedStatusPage&) = delete;

 private:
  static constexpr char kPage[] = "status";
  services::MetricsExporter& exporter_;
};

// Keeps the process alive for `seconds`, so that a scrape of the metrics sees how the run ended; a signal ends the
// wait.
void Linger(double seconds, StopSignals& signals) {
  const absl::Time until = absl::Now() + absl::Seconds(seconds);
  while (absl::Now() < until && signals.First() == 0) absl::SleepFor(absl::Milliseconds(100));
}

// Waits for the run's end; meanwhile passes signals on and follows the run's events.
absl::StatusOr<int> RunToTheEnd(const CoordinatorFlags& flags, services::CoordinatorServer& server,
                                StopSignals& signals, ReportWriter* report, const Output& output) {
  Progress progress(output.err, Clock::Real(), output.err_terminal);
  RunFollower follower(server, report, flags.quiet ? nullptr : &progress);
  absl::Status run;
  {
    const SignalForwarder forwarder(signals, server, flags.supervised);
    run = server.Wait();
  }
  const absl::Status reported = follower.Finish();
  progress.Close();
  // A supervised coordinator whose run is done stays until a signal anyway; after a failed run it does not.
  if (flags.metrics_port != 0 && !(flags.supervised && run.ok())) Linger(flags.metrics_linger, signals);
  ZF_RETURN_IF_ERROR(signals.Stopped(run));
  ZF_RETURN_IF_ERROR(reported);
  const RunRecord& record = follower.record();
  if (!flags.quiet) output.out << SummaryText(record, output.out_terminal) << std::flush;
  if (flags.supervised) {
    output.err << "zerofleet: the run has ended; answering until a signal" << std::endl;
    while (signals.First() == 0) absl::SleepFor(absl::Milliseconds(100));
    return 0;
  }
  const bool stopped = record.end && record.end->stopped();
  return stopped && signals.First() != 0 ? StopExitCode(signals.First()) : 0;
}

absl::StatusOr<int> RunCoordinator(const CoordinatorFlags& flags, const Output& output) {
  StopSignals signals;
  ZF_ASSIGN_OR_RETURN(const services::LogLevel level, services::LogLevelFromFlagOrEnvironment(flags.log_level));
  ZF_ASSIGN_OR_RETURN(services::Address address, services::ParseAddress(flags.listen));
  services::CoordinatorOptions options;
  const auto stopped = [&signals] { return signals.First() != 0; };
  const SampleCounter count = [&](const v1::Config& config) {
    return CountTrainingSamples(config, output.err, output.err_terminal, stopped);
  };
  const absl::StatusOr<v1::Config> loaded = LoadConfig(flags.config, {}, count);
  if (absl::IsCancelled(loaded.status())) return StopExitCode(signals.First());
  ZF_ASSIGN_OR_RETURN(const v1::Config given, loaded);
  ZF_RETURN_IF_ERROR(CheckNoInput("--report", flags.report, InputsOfRun(flags.config, given)));
  // The workers may run elsewhere, so the plan assumes the threads that this machine would give a single worker.
  ZF_ASSIGN_OR_RETURN(options.config, WithPlannedFraction(given, ThreadsPerWorker(1)));
  services::Logger logger(level);
  MakeRoomForClients();
  options.listen = flags.listen;
  options.state_dir = flags.state_dir;
  options.resume = flags.resume;
  options.tls = flags.tls;
  options.version = services::GetBuildInfo().version;
  options.revision = services::GetBuildInfo().revision;
  options.supervised = flags.supervised;
  options.watched = flags.watched;
  options.run = flags.run_name.empty() ? RunNameOf(flags.config) : flags.run_name;
  options.logger = &logger;
  ZF_ASSIGN_OR_RETURN(options.access, ReadAccess(flags.access, flags.tls));
  signal(SIGPIPE, SIG_IGN);  // a closed pipe must not end the run
  std::unique_ptr<ReportWriter> report;
  if (!flags.report.empty()) {
    ZF_ASSIGN_OR_RETURN(report, ReportWriter::Open(flags.report));
    if (!report->note().empty()) logger.Warning(report->note());
  }
  std::unique_ptr<services::MetricsExporter> exporter;
  if (flags.metrics_port != 0) {
    services::MetricsExporterOptions exporter_options;
    exporter_options.host = flags.metrics_listen;
    exporter_options.port = flags.metrics_port;
    ZF_ASSIGN_OR_RETURN(exporter_options.tls, MetricsTls(flags.metrics_tls, flags.tls));
    exporter_options.warn = [&logger](const std::string& line) { logger.Warning(line); };
    ZF_ASSIGN_OR_RETURN(exporter, services::MetricsExporter::Start(exporter_options));
    options.registry = &exporter->registry();
  }
  ExitWatchdog watchdog(absl::Seconds(kExitSeconds));  // the exit must not wait for storage that hangs
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<services::CoordinatorServer> server,
                      services::CoordinatorServer::Start(options));
  std::optional<ServedStatusPage> page;
  if (exporter != nullptr) {
    exporter->TellOfRefused(server->refusals());
    page.emplace(*exporter, *server);
  }
  address.port = server->port();
  // Printed only now: until the directory is locked, this coordinator may not listen at all.
  const std::string warning = ExposureWarning(address, options.access);
  if (!warning.empty()) logger.Warning(warning);
  output.out << "listening on " << address.ToString() << std::endl;
  if (!flags.advertise.empty()) {
    output.out << "workers connect to " << services::Address{flags.advertise, address.port}.ToString() << std::endl;
  }
  absl::StatusOr<int> ended = RunToTheEnd(flags, *server, signals, report.get(), output);
  if (!ended.ok()) watchdog.Arm(ended.status());
  return ended;
}

}  // namespace

void AddCoordinatorCommand(CLI::App& app, CommandBody& body) {
  auto flags = std::make_shared<CoordinatorFlags>();
  CLI::App* command = app.add_subcommand("coordinator", "Run a fleet's coordinator until its run has ended.");
  command->add_option("--config", flags->config, "The run's configuration, YAML")->type_name("FILE")->required();
  command->add_option("--listen", flags->listen, "HOST:PORT for workers and operators; port 0 takes a free one")
      ->type_name("HOST:PORT")
      ->required();
  command->add_option("--state-dir", flags->state_dir, "Where its generation is kept over restarts")
      ->type_name("DIR")
      ->required();
  command->add_option("--resume", flags->resume, "auto, none or a checkpoint's step directory")->capture_default_str();
  command
      ->add_option("--advertise", flags->advertise,
                   "Name or address of this host that workers and operators connect to; printed at the start")
      ->check(PlainName())
      ->type_name("HOST");
  command
      ->add_option("--metrics-port", flags->metrics_port,
                   "Serve Prometheus metrics and the status page, /status, on this port")
      ->check(CLI::Range(1, 65535));
  AddMetricsTlsFlag(*command, flags->metrics_tls);
  command->add_option("--metrics-listen", flags->metrics_listen, "IP address to serve metrics on")
      ->capture_default_str();
  command->add_option("--log-level", flags->log_level, "debug, info, warning or error; else $ZEROFLEET_LOG_LEVEL");
  command->add_option("--report", flags->report, "Append one JSON object per event to this file, a line each")
      ->type_name("FILE");
  command
      ->add_option("--metrics-linger", flags->metrics_linger,
                   "Serve metrics for this many seconds after the run's end, for a last scrape")
      ->check(CLI::Range(0, 86'400));
  AddRunNameFlag(*command, flags->run_name);
  command->add_flag(
      "--supervised", flags->supervised,
      "Something starts this process again, such as Kubernetes or systemd: a signal leaves the run to the "
      "next coordinator instead of stopping it, and after the run's end this one answers until a signal");
  command->add_flag(
      "--watched", flags->watched,
      "Something is about to watch this run, as `train` does: wait up to 20 seconds for it at the run's end");
  command->add_flag("--quiet", flags->quiet, "Show no progress on stderr");
  AddAccessFlags(*command, flags->access);
  AddServerTlsFlags(*command, flags->tls);
  command->footer(
      "Example:\n  zerofleet coordinator --config run.yaml --listen 0.0.0.0:7070 --state-dir /var/lib/zerofleet");
  command->callback(
      [flags, &body] { body = [flags](const Output& output) { return RunCoordinator(*flags, output); }; });
}

}  // namespace zerofleet::cli
