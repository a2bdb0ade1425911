// `zerofleet coordinator`: the fleet's coordinator as a process of its own.
#include <atomic>
#include <memory>
#include <ostream>
#include <string>
#include <thread>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "cli/command.h"
#include "cli/config.h"
#include "cli/stop_signals.h"
#include "cli/tls_flags.h"
#include "services/address.h"
#include "services/build_info.h"
#include "services/coordinator_server.h"
#include "services/logging.h"
#include "services/metrics_exporter.h"

namespace zerofleet {
namespace {

struct CoordinatorFlags {
  std::string config, listen, state_dir, resume = "auto", log_level;
  int metrics_port = 0;
  TlsFiles tls;
};

// Passes this process's first signal on as an orderly stop.
class SignalForwarder {
 public:
  SignalForwarder(StopSignals& signals, CoordinatorServer& server)
      : thread_([this, &signals, &server] {
          while (!done_) {
            const int signal = signals.First();
            if (signal != 0) return server.Stop(absl::StrCat("the coordinator received ", SignalName(signal)));
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

absl::StatusOr<int> RunCoordinator(const CoordinatorFlags& flags, const Output& output) {
  StopSignals signals;
  ZF_ASSIGN_OR_RETURN(const LogLevel level, LogLevelFromFlagOrEnvironment(flags.log_level));
  ZF_ASSIGN_OR_RETURN(Address address, ParseAddress(flags.listen));
  CoordinatorOptions options;
  ZF_ASSIGN_OR_RETURN(options.config, LoadConfig(flags.config, {}));
  Logger logger(level);
  options.listen = flags.listen;
  options.state_dir = flags.state_dir;
  options.resume = flags.resume;
  options.tls = flags.tls;
  options.version = GetBuildInfo().version;
  options.log = [&logger](const std::string& line) { logger.Info(line); };
  std::unique_ptr<MetricsExporter> exporter;
  if (flags.metrics_port != 0) {
    MetricsExporterOptions exporter_options;
    exporter_options.port = flags.metrics_port;
    ZF_ASSIGN_OR_RETURN(exporter, MetricsExporter::Start(exporter_options));
    options.registry = &exporter->registry();
  }
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<CoordinatorServer> server, CoordinatorServer::Start(options));
  address.port = server->port();
  output.out << "listening on " << address.ToString() << std::endl;
  const SignalForwarder forwarder(signals, *server);
  ZF_RETURN_IF_ERROR(server->Wait());
  return 0;
}

}  // namespace

void AddCoordinatorCommand(CLI::App& app, CommandBody& body) {
  auto flags = std::make_shared<CoordinatorFlags>();
  CLI::App* command = app.add_subcommand("coordinator", "Run a fleet's coordinator until its run has ended.");
  command->add_option("--config", flags->config, "The run's configuration, YAML")->required();
  command->add_option("--listen", flags->listen, "HOST:PORT for workers and operators; port 0 takes a free one")
      ->required();
  command->add_option("--state-dir", flags->state_dir, "Where its generation is kept over restarts")->required();
  command->add_option("--resume", flags->resume, "auto, none or a checkpoint's step directory")->capture_default_str();
  command->add_option("--metrics-port", flags->metrics_port, "Serve Prometheus metrics there")
      ->check(CLI::Range(1, 65535));
  command->add_option("--log-level", flags->log_level, "debug, info, warning or error; else $ZEROFLEET_LOG_LEVEL");
  AddServerTlsFlags(*command, flags->tls);
  command->footer(
      "Example:\n  zerofleet coordinator --config run.yaml --listen 0.0.0.0:7070 --state-dir /var/lib/zerofleet");
  command->callback(
      [flags, &body] { body = [flags](const Output& output) { return RunCoordinator(*flags, output); }; });
}

}  // namespace zerofleet
