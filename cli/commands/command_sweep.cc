// `zerofleet sweep`: the runs of a grid, one after another, and a table of what came of them.
#include <algorithm>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status.h"
#include "cli/commands/command.h"
#include "cli/commands/flag_checks.h"
#include "cli/commands/sweep.h"
#include "cli/config/config.h"
#include "cli/launcher/await_child.h"
#include "cli/launcher/child_process.h"
#include "cli/launcher/preflight.h"
#include "cli/launcher/stop_signals.h"

namespace zerofleet::cli {
namespace {

struct SweepFlags {
  std::string config, dir = "sweep";
  std::vector<std::string> grids, sets;
};

std::string ReportOf(const SweepFlags& flags, const SweepRun& run) {
  return JoinPath(flags.dir, absl::StrCat(run.name, ".jsonl"));
}

// The settings of one run: its directory, those of --set, its own.
std::vector<std::string> SettingsOf(const SweepFlags& flags, const SweepRun& run) {
  std::vector<std::string> settings = {absl::StrCat("checkpoint.dir=", JoinPath(flags.dir, run.name))};
  settings.insert(settings.end(), flags.sets.begin(), flags.sets.end());
  settings.insert(settings.end(), run.settings.begin(), run.settings.end());
  return settings;
}

// A key may not be in both --set and --grid: the grid's value would replace the other.
absl::Status CheckSets(const std::vector<std::string>& sets, const std::vector<GridAxis>& axes) {
  for (const GridAxis& axis : axes) {
    for (const std::string& set : sets) {
      if (!set.starts_with(axis.key + "=")) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("--set: ", axis.key, " is given by --grid, too; leave one of them out"));
    }
  }
  return absl::OkStatus();
}

// The configurations of all runs, which are all checked before the first run starts.
absl::StatusOr<std::vector<v1::Config>> CheckAll(const SweepFlags& flags, const std::vector<SweepRun>& runs,
                                                 const SampleCounter& count) {
  std::vector<v1::Config> configs;
  std::map<std::string, std::string> same;  // a run's configuration without its directory -> its name
  for (const SweepRun& run : runs) {
    std::vector<ConfigOverride> overrides;
    const std::vector<std::string> settings = SettingsOf(flags, run);
    for (size_t i = 0; i < settings.size(); ++i) {
      const bool of_the_grid = i + run.settings.size() >= settings.size();
      overrides.push_back({of_the_grid ? "--grid" : "--set", settings[i]});
    }
    absl::StatusOr<v1::Config> config = LoadConfig(flags.config, overrides, count);
    if (!config.ok()) return Annotate(config.status(), run.name);
    if (config->checkpoint().dir() != JoinPath(flags.dir, run.name)) {
      return absl::InvalidArgumentError(
          "checkpoint.dir: each run of a sweep has its own below --dir; leave it out of --set and --grid");
    }
    v1::Config compared = *config;
    compared.mutable_checkpoint()->clear_dir();
    const auto [first, is_new] = same.emplace(compared.SerializeAsString(), run.name);
    if (!is_new) {
      return absl::InvalidArgumentError(absl::StrCat("--grid: ", first->second, " and ", run.name,
                                                     " are the same run; leave one of the two values out"));
    }
    configs.push_back(*std::move(config));
  }
  return configs;
}

// Runs one run of the sweep; signals that arrive meanwhile are passed on to it.
absl::StatusOr<ChildEnd> RunOne(const SweepFlags& flags, const SweepRun& run, const ProcessCommand& command,
                                const StopSignals& signals) {
  std::vector<std::string> arguments = {"train", flags.config, "--report", ReportOf(flags, run)};
  for (const std::string& setting : SettingsOf(flags, run)) {
    arguments.emplace_back("--set");
    arguments.push_back(setting);
  }
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<ChildProcess> child,
                      ChildProcess::Start(run.name, arguments, "", /*file=*/nullptr, command));
  return AwaitChild(*child, signals);
}

absl::StatusOr<int> RunSweep(const SweepFlags& flags, const Output& output) {
  StopSignals signals;
  std::vector<GridAxis> axes;
  for (const std::string& grid : flags.grids) {
    ZF_ASSIGN_OR_RETURN(GridAxis axis, ParseGridAxis(grid));
    axes.push_back(std::move(axis));
  }
  ZF_ASSIGN_OR_RETURN(const std::vector<SweepRun> runs, SweepRuns(axes));
  ZF_RETURN_IF_ERROR(CheckSets(flags.sets, axes));
  const auto stopped = [&signals] { return signals.First() != 0; };
  absl::StatusOr<std::vector<v1::Config>> checked = CheckAll(flags, runs, [&](const v1::Config& config) {
    return CountTrainingSamples(config, output.err, output.err_terminal, stopped);
  });
  if (absl::IsCancelled(checked.status())) return StopExitCode(signals.First());
  ZF_ASSIGN_OR_RETURN(const std::vector<v1::Config> configs, std::move(checked));
  std::vector<SweepOutcome> outcomes(runs.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    ZF_ASSIGN_OR_RETURN(outcomes[i], OutcomeOf(ReportOf(flags, runs[i]), configs[i]));
  }
  ZF_RETURN_IF_ERROR(CreateDirectories(flags.dir));
  int worst = 0, stop_signal = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (stop_signal == 0) stop_signal = signals.First();
    if (outcomes[i].ended || stop_signal != 0) continue;
    output.err << "sweep: run " << i + 1 << " of " << runs.size() << ": " << absl::StrJoin(runs[i].settings, " ")
               << std::endl;
    ZF_ASSIGN_OR_RETURN(const ChildEnd end, RunOne(flags, runs[i], output.command(), signals));
    stop_signal = end.stop_signal;
    ZF_ASSIGN_OR_RETURN(outcomes[i], OutcomeOf(ReportOf(flags, runs[i]), configs[i]));
    // A run that diverges or is refused is also a result.
    if (end.exit_code != 0) {
      output.err << "sweep: " << runs[i].name << " ended with exit code " << end.exit_code << std::endl;
    }
    if (end.exit_code == 0 && !outcomes[i].ended && stop_signal == 0) {
      output.err << "sweep: " << runs[i].name << " is done, but its report does not hold the end; remove "
                 << ReportOf(flags, runs[i]) << " and " << JoinPath(flags.dir, runs[i].name) << " to do it again"
                 << std::endl;
    }
    if (worst == 0) worst = end.exit_code;
  }
  output.out << SweepTable(axes, runs, outcomes, output.out_terminal);
  const bool all_ended =
      std::all_of(outcomes.begin(), outcomes.end(), [](const SweepOutcome& one) { return one.ended; });
  if (stop_signal == 0 || all_ended) return worst;
  output.err << "sweep: stopped by " << SignalName(stop_signal) << "; the same command goes on from here" << std::endl;
  return StopExitCode(stop_signal);
}

}  // namespace

void AddSweepCommand(CLI::App& app, CommandBody& body) {
  auto flags = std::make_shared<SweepFlags>();
  CLI::App* command =
      app.add_subcommand("sweep", "Train with every combination of some settings, one run after another.");
  command->add_option("CONFIG", flags->config, "What the runs have in common, a YAML file")
      ->required()
      ->type_name("FILE");
  Repeatable(
      command
          ->add_option("--grid", flags->grids,
                       "A key and its values, such as optimizer.learning_rate=1e-4,3e-4; all combinations of several")
          ->type_name("KEY=V1,V2")
          ->required());
  Repeatable(command->add_option("--set", flags->sets, "Replaces one key of the configuration in all runs")
                 ->type_name("KEY=VALUE"));
  command
      ->add_option("--dir", flags->dir,
                   "Where each run has its checkpoints and its report; what has ended there is not run again")
      ->type_name("DIR")
      ->capture_default_str();
  command->footer("Example:\n  zerofleet sweep run.yaml --grid optimizer.learning_rate=1e-4,3e-4 --grid seed=1,2");
  command->callback([flags, &body] { body = [flags](const Output& output) { return RunSweep(*flags, output); }; });
}

}  // namespace zerofleet::cli
