// `zerofleet train`: one run on this machine, a coordinator and N workers as children of this process.
#include <signal.h>

#include <iterator>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "cli/commands/command.h"
#include "cli/commands/flag_checks.h"
#include "cli/commands/input_files.h"
#include "cli/commands/python.h"
#include "cli/commands/run_name.h"
#include "cli/commands/trace_flags.h"
#include "cli/config/config.h"
#include "cli/config/open_keys.h"
#include "cli/launcher/exit_watchdog.h"
#include "cli/launcher/follow_run.h"
#include "cli/launcher/launch_guard.h"
#include "cli/launcher/local_fleet.h"
#include "cli/launcher/preflight.h"
#include "cli/launcher/stop_signals.h"
#include "cli/planner/fraction.h"
#include "cli/planner/launch_plan.h"
#include "cli/planner/machine.h"
#include "cli/planner/pick.h"
#include "cli/report/progress.h"
#include "cli/report/report.h"
#include "cli/report/run_record.h"
#include "cli/report/tensorboard.h"
#include "cli/report/trace_parts.h"
#include "worker/device/device.h"
#include "worker/model/foreign.h"
#include "worker/trainer/rules.h"

namespace zerofleet::cli {
namespace {

constexpr absl::Duration kStartLimit = absl::Seconds(120);
constexpr double kReportSeconds = 5;  // how long the reader of a pipe has for the last lines

struct TrainOptions {
  std::string config, device, report, tensorboard, resume = "auto";
  std::vector<std::string> sets;
  std::string workers;
  std::string run_name;
  int metrics_port = 0;
  bool choose = false;
  std::string trace, trace_steps;
};

std::vector<ConfigOverride> Overrides(const TrainOptions& options) {
  std::vector<ConfigOverride> overrides;
  for (const std::string& set : options.sets) overrides.push_back({"--set", set});
  if (!options.workers.empty()) overrides.push_back({"--workers", absl::StrCat("parallel.workers=", options.workers)});
  if (!options.device.empty()) overrides.push_back({"--device", absl::StrCat("device=", options.device)});
  return overrides;
}

// `overrides`, and after them the plan's pick for the keys that the configuration leaves open. Prints a line that says
// what was picked and why.
absl::StatusOr<std::vector<ConfigOverride>> WithPick(const TrainOptions& options, std::vector<ConfigOverride> overrides,
                                                     const SampleCounter& count, std::ostream& progress) {
  const std::vector<std::string> picked(std::begin(kPickedKeys), std::end(kPickedKeys));
  ZF_ASSIGN_OR_RETURN(const v1::Config config, LoadConfig(options.config, overrides, count, picked));
  ZF_ASSIGN_OR_RETURN(const std::string device, device::ResolveDeviceKind(config.device()));
  if (device != "cpu") {
    return absl::InvalidArgumentError(
        absl::StrCat("--auto: chooses for the CPU device, and this run would use ", device,
                     "; take the settings that `zerofleet plan --gpu` picks, or --device cpu"));
  }
  ZF_ASSIGN_OR_RETURN(const std::set<std::string> open, KeysLeftOpen(options.config, overrides, picked));
  ZF_ASSIGN_OR_RETURN(const Pick pick, PickSettings(config, open, ThisMachine(config)));
  const std::vector<std::string> settings = PickedSettings(pick.first.config, open);
  for (const std::string& setting : settings) overrides.push_back({"--auto", setting});
  progress << "auto: " << (settings.empty() ? "the configuration leaves nothing open" : absl::StrJoin(settings, " "))
           << "\n      " << pick.reason << "\n";
  return overrides;
}

// Hands this command over to the Python package.
absl::Status HandOver(const TrainOptions& options) {
  std::vector<std::string> arguments = {"train", options.config};
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) arguments.insert(arguments.end(), {flag, value});
  };
  for (const std::string& set : options.sets) add("--set", set);
  add("--workers", options.workers);
  add("--device", options.device);
  add("--report", options.report);
  add("--tensorboard", options.tensorboard);
  add("--resume", options.resume);
  add("--metrics-port", options.metrics_port > 0 ? absl::StrCat(options.metrics_port) : "");
  add("--run-name", options.run_name);
  add("--trace", options.trace);
  add("--trace-steps", options.trace_steps);
  return BecomePackage(PythonOf(""), arguments);
}

// Checks that no output file is one of the input files or another output.
absl::Status CheckOutputs(const TrainOptions& options, const v1::Config& config) {
  std::vector<InputFile> inputs = InputsOfRun(options.config, config);
  ZF_RETURN_IF_ERROR(CheckNoInput("--report", options.report, inputs));
  inputs.push_back({options.report, "--report's"});
  return CheckNoInput("--trace", options.trace, inputs);
}

absl::StatusOr<int> Train(const TrainOptions& options, const Output& output, StopSignals& signals,
                          ExitWatchdog& watchdog) {
  signal(SIGPIPE, SIG_IGN);  // a closed pipe must not end the run
  ZF_ASSIGN_OR_RETURN(const std::optional<StepRange> traced, TracedStepsOf(options.trace, options.trace_steps));
  const auto stopped = [&signals] { return signals.First() != 0; };
  const SampleCounter count = [&](const v1::Config& config) -> absl::StatusOr<int64_t> {
    if (model::IsForeign(config.model()) && output.host == nullptr) return kSamplesToBeCounted;
    return CountTrainingSamples(config, output.err, output.err_terminal, stopped);
  };
  std::vector<ConfigOverride> overrides = Overrides(options);
  if (options.choose) {
    absl::StatusOr<std::vector<ConfigOverride>> picked = WithPick(options, std::move(overrides), count, output.err);
    if (absl::IsCancelled(picked.status())) return StopExitCode(signals.First());
    ZF_ASSIGN_OR_RETURN(overrides, std::move(picked));
  }
  const absl::StatusOr<v1::Config> loaded = LoadConfig(options.config, overrides, count);
  if (absl::IsCancelled(loaded.status())) return StopExitCode(signals.First());
  ZF_ASSIGN_OR_RETURN(const v1::Config given, loaded);
  ZF_RETURN_IF_ERROR(CheckOutputs(options, given));
  if (model::IsForeign(given.model())) {
    if (options.choose) return absl::InvalidArgumentError("--auto: is not supported with model.torch; leave it out");
    if (output.host == nullptr) return HandOver(options);
  }
  ZF_ASSIGN_OR_RETURN(const v1::Config config,
                      WithPlannedFraction(given, ThreadsPerWorker(given.parallel().workers())));
  if (given.offload().fraction() == trainer::kFractionByPlan) {
    output.err << "auto: offload.fraction=" << config.offload().fraction() << "\n";
  }
  const int workers = config.parallel().workers() + config.restart().spares();
  if (options.metrics_port + workers > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("--metrics-port: must leave a port for each of ", workers,
                                                   " workers after it, up to 65535; got ", options.metrics_port));
  }
  ZF_RETURN_IF_ERROR(CheckDevice(config));
  const absl::StatusOr<std::string> data = CheckDataFiles(config, output.err, output.err_terminal, stopped);
  if (absl::IsCancelled(data.status())) return StopExitCode(signals.First());
  ZF_RETURN_IF_ERROR(data);
  ZF_ASSIGN_OR_RETURN(const LaunchPlan launch, PlanLaunch(config));
  ZF_RETURN_IF_ERROR(CheckLaunch(config, launch, UsableMemoryBytes()));
  ZF_ASSIGN_OR_RETURN(const ResumeCheck resumed, CheckResume(config, options.resume));
  if (!resumed.finished.empty()) {
    output.out << "nothing to do: " << resumed.finished << " is the last step's checkpoint (steps: " << config.steps()
               << "); raise steps to train on\n";
    return 0;
  }
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<RunDirectory> directory, RunDirectory::Hold(config.checkpoint().dir()));
  const absl::Status ids = CheckTokenIds(config, output.err, stopped);
  if (absl::IsCancelled(ids)) return StopExitCode(signals.First());
  ZF_RETURN_IF_ERROR(ids);
  std::unique_ptr<ReportWriter> report;
  if (!options.report.empty()) {
    ZF_ASSIGN_OR_RETURN(report, ReportWriter::Open(options.report));
  }
  std::unique_ptr<TensorBoardWriter> tensorboard;
  if (!options.tensorboard.empty()) {
    ZF_ASSIGN_OR_RETURN(tensorboard, TensorBoardWriter::Open(options.tensorboard,
                                                             absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch())));
  }
  std::optional<TraceParts> trace;
  if (traced) {
    ZF_RETURN_IF_ERROR(CheckNoInput("--trace", options.trace, {{options.report, "--report's"}}));  // it exists by now
    if (traced->last > config.steps()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--trace-steps: the run has ", config.steps(), " steps, got ", options.trace_steps));
    }
    std::vector<std::string> parts;
    for (int worker = 0; worker < workers; ++worker) parts.push_back(directory->trace_path(worker));
    ZF_ASSIGN_OR_RETURN(trace, TraceParts::Begin(options.trace, traced->first, traced->last, std::move(parts)));
  }
  ZF_RETURN_IF_ERROR(MakeRoomForFleet(workers));
  output.err << WrapText(*data, output.err_terminal.text_columns(), /*indent=*/2) << "\n";
  output.err << LaunchText(config, launch, output.err_terminal.text_columns()) << std::endl;
  auto guard = std::make_unique<LaunchGuard>(kStartLimit, signals);
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<LocalFleet> fleet,
                      LocalFleet::Start({config, options.resume, options.metrics_port,
                                         options.run_name.empty() ? RunNameOf(options.config) : options.run_name,
                                         output.command(), trace ? options.trace_steps : ""},
                                        *directory));
  guard.reset();
  // From here on the process ends, however the run does.
  const absl::Cleanup leaving = [&] {
    watchdog.Arm(absl::UnavailableError("the run has ended, the launcher has not"));
    signals.EndAtOnce();
  };
  Progress progress(output.err, Clock::Real(), output.err_terminal);
  if (report != nullptr && !report->note().empty()) progress.Note(report->note());
  progress.Note(absl::StrCat("coordinator at ", fleet->address()));
  RunRecord record;
  const auto note_trace = [&](const std::string& line) {
    if (!line.empty()) progress.Note(line);
  };
  const absl::StatusOr<int> followed =
      FollowRun({*fleet, signals, progress, report.get(), tensorboard.get(), Clock::Real(), config.restart(),
                 [&](int64_t step) { note_trace(trace ? trace->StepDone(step) : ""); }},
                record);
  note_trace(trace ? trace->End() : "");
  ZF_ASSIGN_OR_RETURN(const int exit_code, followed);
  if (report != nullptr) ZF_RETURN_IF_ERROR(report->Finish(kReportSeconds));
  const PlannedMemory planned = PlannedOf(launch);
  output.out << SummaryText(record, output.out_terminal, &planned) << std::flush;
  if (trace) ZF_RETURN_IF_ERROR(trace->status());
  return exit_code;
}

absl::StatusOr<int> RunTrain(const TrainOptions& options, const Output& output) {
  StopSignals signals;
  ExitWatchdog watchdog;  // destroyed after everything else
  return Train(options, output, signals, watchdog);
}

}  // namespace

void AddTrainCommand(CLI::App& app, CommandBody& body) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "Train on this machine: a coordinator and N workers.");
  command->add_option("CONFIG", options->config, "The run's configuration, a YAML file")->required()->type_name("FILE");
  command->add_option("--workers", options->workers, "Number of workers; as --set parallel.workers=N")->type_name("N");
  command->add_option("--device", options->device, "Where to compute; as --set device=...")->type_name("auto|cpu|cuda");
  Repeatable(command
                 ->add_option("--set", options->sets,
                              "Replaces one key of the configuration, such as optimizer.learning_rate=1e-3")
                 ->type_name("KEY=VALUE"));
  command->add_option("--report", options->report, "Append one JSON object per event to this file, a line each")
      ->type_name("FILE");
  command->add_option("--tensorboard", options->tensorboard, "Write event files for TensorBoard into this directory")
      ->type_name("DIR");
  command
      ->add_option("--resume", options->resume,
                   "auto: continue from the newest checkpoint in checkpoint.dir, if any, or begin; none: begin, from "
                   "the seed or "
                   "init_from; or a step directory")
      ->type_name("auto|none|PATH")
      ->capture_default_str();
  command
      ->add_option("--metrics-port", options->metrics_port,
                   "Serve Prometheus metrics: the coordinator on this port, worker i on the port plus 1 + i")
      ->type_name("PORT")
      ->check(CLI::Range(1, 65535));
  command->add_flag("--auto", options->choose,
                    "Let the plan choose what the configuration leaves open of stage, tensor degree, micro-batch, "
                    "checkpointing and offload");
  AddTraceFlags(*command, "what each rank did in some steps", options->trace, options->trace_steps);
  AddRunNameFlag(*command, options->run_name);
  command->footer("Example:\n  zerofleet train examples/tiny.yaml --workers 2 --set steps=200 --report run.jsonl");
  command->callback(
      [options, &body] { body = [options](const Output& output) { return RunTrain(*options, output); }; });
}

}  // namespace zerofleet::cli
