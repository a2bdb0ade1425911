// `zerofleet train`: one run on this machine, a coordinator and N workers as children of this process.
#include <signal.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cli/command.h"
#include "cli/config.h"
#include "cli/follow_run.h"
#include "cli/local_fleet.h"
#include "cli/preflight.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/run_record.h"
#include "cli/stop_signals.h"

namespace zerofleet {
namespace {

struct TrainOptions {
  std::string config, device, report, resume = "auto";
  std::vector<std::string> sets;
  std::string workers;
  int metrics_port = 0;
};

std::vector<ConfigOverride> Overrides(const TrainOptions& options) {
  std::vector<ConfigOverride> overrides;
  for (const std::string& set : options.sets) overrides.push_back({"--set", set});
  if (!options.workers.empty()) overrides.push_back({"--workers", absl::StrCat("parallel.workers=", options.workers)});
  if (!options.device.empty()) overrides.push_back({"--device", absl::StrCat("device=", options.device)});
  return overrides;
}

absl::StatusOr<int> RunTrain(const TrainOptions& options, const Output& output) {
  const StopSignals signals;
  signal(SIGPIPE, SIG_IGN);  // a closed pipe is no reason to lose the run
  ZF_ASSIGN_OR_RETURN(const v1::Config config, LoadConfig(options.config, Overrides(options)));
  if (options.metrics_port + config.parallel().workers() > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("--metrics-port: wants room for ", config.parallel().workers(),
                                                   " workers' ports after it, up to 65535; not ",
                                                   options.metrics_port));
  }
  ZF_RETURN_IF_ERROR(CheckDevice(config));
  ZF_RETURN_IF_ERROR(CheckDataFiles(config));
  ZF_RETURN_IF_ERROR(CheckResume(config, options.resume));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<RunDirectory> directory, RunDirectory::Hold(config.checkpoint().dir()));
  std::unique_ptr<ReportWriter> report;
  if (!options.report.empty()) {
    ZF_ASSIGN_OR_RETURN(report, ReportWriter::Open(options.report));
  }
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<LocalFleet> fleet,
                      LocalFleet::Start({config, options.resume, options.metrics_port}, *directory));
  Progress progress(output.err, Clock::Real(), output.err_is_terminal);
  RunRecord record;
  ZF_ASSIGN_OR_RETURN(const int exit_code, FollowRun({*fleet, signals, progress, report.get(), Clock::Real()}, record));
  output.out << SummaryText(record);
  return exit_code;
}

}  // namespace

void AddTrainCommand(CLI::App& app, CommandBody& body) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "Train on this machine: a coordinator and N workers.");
  command->add_option("CONFIG", options->config, "The run's configuration, YAML")->required();
  command->add_option("--workers", options->workers, "Workers in all; as --set parallel.workers=N");
  command->add_option("--device", options->device, "auto, cpu or cuda; as --set device=...");
  command
      ->add_option("--set", options->sets,
                   "KEY=VALUE over the configuration's, such as optimizer.learning_rate=1e-3; may be repeated")
      ->expected(1)
      ->take_all();
  command->add_option("--report", options->report, "Append one JSON object a line and event to this file");
  command
      ->add_option(
          "--resume", options->resume,
          "auto: go on from the newest checkpoint in checkpoint.dir, if any; none: begin anew; or a step directory")
      ->capture_default_str();
  command
      ->add_option("--metrics-port", options->metrics_port,
                   "Prometheus metrics: the coordinator's port; worker i has this + 1 + i")
      ->check(CLI::Range(1, 65535));
  command->footer("Example:\n  zerofleet train examples/tiny.yaml --workers 2 --set steps=200 --report run.jsonl");
  command->callback(
      [options, &body] { body = [options](const Output& output) { return RunTrain(*options, output); }; });
}

}  // namespace zerofleet
