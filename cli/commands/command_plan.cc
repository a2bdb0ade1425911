// `zerofleet plan`: the model states of a model of any size for every stage and any number of workers; one rank's
// memory; a model on a cluster; the paper's tables.
#include <cmath>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status.h"
#include "base/units.h"
#include "cli/commands/command.h"
#include "cli/commands/flag_checks.h"
#include "cli/commands/input_files.h"
#include "cli/config/config.h"
#include "cli/launcher/local_fleet.h"
#include "cli/launcher/stop_signals.h"
#include "cli/planner/cluster.h"
#include "cli/planner/cluster_plan.h"
#include "cli/planner/fraction.h"
#include "cli/planner/machine.h"
#include "cli/planner/model_states.h"
#include "cli/planner/paper_tables.h"
#include "cli/planner/pick.h"
#include "cli/planner/plan_memory.h"
#include "cli/planner/plan_size.h"
#include "cli/planner/probe.h"
#include "cli/report/table.h"
#include "cli/report/terminal.h"
#include "coordinator/placement.h"
#include "nlohmann/json.hpp"
#include "worker/trainer/memory_limits.h"

namespace zerofleet::cli {
namespace {

constexpr int kStages = 4;
// A choice whose predicted step is shorter than this is timed whole, not extrapolated: differences between choices are
// small.
constexpr double kShortStepSeconds = 0.5;
constexpr double kMostFinalSeconds = 120;

struct PlanOptions {
  std::string config, preset, parameters, precision;
  std::vector<std::string> sets;
  std::vector<int64_t> workers = {1, 4, 16, 64, 256, 1024};
  int node_gpus = coordinator::kMostAutoTeam;
  ClusterFlags cluster;
  std::string table, html;
  bool measure = false, json = false;
};

// The team that a run of `workers` would form on nodes of `node_gpus` workers, unless its configuration names one.
int TeamOf(const PlanSize& size, int64_t workers, int node_gpus) {
  const v1::ParallelConfig parallel = size.config ? size.config->parallel() : v1::ParallelConfig();
  const absl::StatusOr<int> configured = coordinator::ConfiguredTeam(parallel);
  if (configured.ok() && *configured > 0) return *configured;
  std::vector<int> nodes(workers);
  for (size_t rank = 0; rank < nodes.size(); ++rank) nodes[rank] = static_cast<int>(rank) / node_gpus;
  return coordinator::AutoTeam(nodes, /*tensor=*/1);
}

// Roughly as the paper prints it: no decimals from 100 GB, one from 10, two from 1, three digits below.
std::string Gigabytes(double bytes) {
  const double value = bytes / 1e9;
  if (value < 1) return absl::StrFormat("%.3g", value);
  return absl::StrFormat("%.*f", value >= 100 ? 0 : value >= 10 ? 1 : 2, value);
}

nlohmann::ordered_json PlanJson(const PlanSize& size, const PlanOptions& options) {
  nlohmann::ordered_json document = {{"model", size.name},
                                     {"parameters", size.parameters},
                                     {"precision", size.precision},
                                     {"optimizer", size.optimizer->name},
                                     {"convention", StatesConvention(size)}};
  auto& rows = document["rows"] = nlohmann::ordered_json::array();
  const auto whole = [](double bytes) { return std::llround(bytes); };
  for (const int64_t n : options.workers) {
    const int team = TeamOf(size, n, options.node_gpus);
    for (int stage = 0; stage < kStages; ++stage) {
      const ModelStates states = PaperModelStates(stage, size.parameters, n, size.precision, *size.optimizer);
      const double elements = PaperTrafficElements(stage, size.parameters, n);
      rows.push_back({{"workers", n},
                      {"team", team},
                      {"zero_stage", stage},
                      {"parameters_bytes", whole(states.parameters)},
                      {"gradients_bytes", whole(states.gradients)},
                      {"optimizer_bytes", whole(states.optimizer)},
                      {"total_bytes", whole(states.total())},
                      {"sent_elements_per_step", whole(elements)},
                      {"sent_bytes_per_step", whole(SentBytes(stage, size.parameters, n, size.precision, team))}});
    }
  }
  return document;
}

std::string PlanText(const PlanSize& size, const PlanOptions& options, const Terminal& terminal) {
  std::string text =
      absl::StrCat(size.name, ", ", HumanCount(size.parameters), " parameters\n\nModel states per worker, GB\n");
  TextTable states({"workers", "stage 0", "stage 1", "stage 2", "stage 3"}), traffic = states;
  for (const int64_t n : options.workers) {
    const int team = TeamOf(size, n, options.node_gpus);
    std::vector<std::string> bytes = {absl::StrCat(n)}, sent = bytes;
    for (int stage = 0; stage < kStages; ++stage) {
      bytes.push_back(Gigabytes(PaperModelStates(stage, size.parameters, n, size.precision, *size.optimizer).total()));
      sent.push_back(Gigabytes(SentBytes(stage, size.parameters, n, size.precision, team)));
    }
    states.Add(bytes);
    traffic.Add(sent);
  }
  absl::StrAppend(&text, states.Render(2, terminal), "\nSent per worker and step, GB at ", ElementBytes(size.precision),
                  " bytes per element, 4 for sums between nodes of ", options.node_gpus, "\n",
                  traffic.Render(2, terminal), "\n", WrapText(StatesConvention(size), terminal.columns()),
                  "\nPadding, activations and buffers are not included.\n");
  return text;
}

std::vector<ConfigOverride> Overrides(const PlanOptions& options) {
  std::vector<ConfigOverride> overrides;
  for (const std::string& set : options.sets) overrides.push_back({"--set", set});
  return overrides;
}

absl::StatusOr<int> RunTable(const PlanOptions& options, const Output& output) {
  if (!options.config.empty() || !options.preset.empty() || !options.parameters.empty()) {
    return absl::InvalidArgumentError(
        "--table: is of the paper's models; leave out the configuration, --preset and "
        "--parameters");
  }
  if (!options.html.empty() || !options.sets.empty() || !options.precision.empty() || options.cluster.given() ||
      options.measure) {
    return absl::InvalidArgumentError(
        "--table: is computed from the paper's settings; leave out --html, --set, --precision, --measure and what "
        "describes a cluster");
  }
  const Terminal& terminal = output.out_terminal;
  if (options.table == "1") {
    output.out << (options.json ? Table1Json().dump(2) + "\n" : Table1Text(terminal));
  } else if (options.table == "2") {
    output.out << (options.json ? Table2Json().dump(2) + "\n" : Table2Text(terminal));
  } else if (options.table == "3") {
    ZF_ASSIGN_OR_RETURN(const std::vector<ConfigurationReach> reaches, PlanPaperConfigurations());
    output.out << (options.json ? Table3Json(reaches).dump(2) + "\n" : Table3Text(reaches, terminal));
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("--table: must be 1, 2 or 3, got \"", absl::CHexEscape(options.table), "\""));
  }
  return 0;
}

// The cluster that the flags describe, and the configuration to plan on it.
absl::StatusOr<std::pair<Cluster, v1::Config>> ChooseCluster(const PlanOptions& options) {
  ClusterFlags flags = options.cluster;
  flags.node_gpus = absl::StrCat(options.node_gpus);
  ZF_ASSIGN_OR_RETURN(Cluster cluster, ParseCluster(flags));
  // The number of workers in a file is the size of the cluster, unless --gpus gives it.
  const int64_t workers = flags.gpus.empty() && !options.config.empty() ? 0 : cluster.gpus;
  ZF_ASSIGN_OR_RETURN(const v1::Config config, ChoosePlanConfig(options.config, options.preset, options.parameters,
                                                                Overrides(options), options.precision, workers));
  cluster.gpus = config.parallel().workers();
  return std::pair(cluster, config);
}

// The configuration to run: offload.fraction `auto` is replaced by the planned number.
absl::StatusOr<v1::Config> RunOf(const v1::Config& config) {
  return WithPlannedFraction(config, ThreadsPerWorker(config.parallel().workers()));
}

// Tasks for as many of the first finalists as can be run within kMostFinalSeconds; none if fewer than two can, which
// leaves nothing to compare.
absl::StatusOr<std::vector<ProbeTask>> TasksOf(const std::vector<Choice>& finalists) {
  std::vector<ProbeTask> tasks;
  double seconds = 0;
  for (const Choice& finalist : finalists) {
    const double step_seconds = finalist.estimate.time.seconds();
    ZF_ASSIGN_OR_RETURN(const v1::Config run, RunOf(finalist.config));
    ProbeTask task = {run, step_seconds < kShortStepSeconds ? WholeStep(run) : ProbePoints(run)};
    seconds += ProbeCost(task, step_seconds);
    if (seconds > kMostFinalSeconds) break;
    tasks.push_back(std::move(task));
  }
  if (tasks.size() < 2) tasks.clear();
  return tasks;
}

// The plan on this machine, with measured rates. Short runs time the step, if the configuration fits, and decide the
// pick.
absl::StatusOr<ClusterPlan> PlanOnThisMachine(const std::string& name, const PlanOptions& options) {
  if (options.cluster.given()) {
    return absl::InvalidArgumentError("--measure: is of this machine; leave out what describes another cluster");
  }
  ZF_ASSIGN_OR_RETURN(const v1::Config config,
                      ChoosePlanConfig(options.config, options.preset, options.parameters, Overrides(options),
                                       options.precision, options.config.empty() ? 1 : 0));
  // A signal ends the measurement at once; the runs after it have processes and directories to be removed.
  ZF_ASSIGN_OR_RETURN(const Cluster machine, MeasureThisMachine(config));
  StopSignals signals;
  ZF_ASSIGN_OR_RETURN(ClusterPlan plan, PlanOnCluster(name, config, machine));
  std::vector<ProbeTask> tasks;
  if (plan.pick.ok()) {
    ZF_ASSIGN_OR_RETURN(tasks, TasksOf(plan.pick->finalists));
  }
  const size_t finalists = tasks.size();
  if (plan.rank.need.fits()) {
    ZF_ASSIGN_OR_RETURN(const v1::Config run, RunOf(config));
    tasks.push_back({run, ProbePoints(run)});
  }
  ZF_ASSIGN_OR_RETURN(const std::vector<Probe> probes, ProbeSteps(tasks, signals));
  if (plan.rank.need.fits()) plan.probe = probes.back();
  if (finalists > 0) {
    plan.pick->finalists.resize(finalists);
    for (size_t i = 0; i < finalists; ++i) plan.pick->finalists[i].measured_seconds = probes[i].seconds;
    DecideByRuns(*plan.pick);
  }
  return plan;
}

absl::StatusOr<ClusterPlan> PlanOnAnotherMachine(const std::string& name, const PlanOptions& options) {
  ZF_ASSIGN_OR_RETURN(const auto chosen, ChooseCluster(options));
  return PlanOnCluster(name, chosen.second, chosen.first);
}

absl::Status AtHtml(const absl::Status& status) {
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat("--html: ", status.message()));
}

absl::StatusOr<int> RunOnCluster(const PlanOptions& options, const Output& output) {
  // Checked before anything that takes minutes.
  if (!options.html.empty()) {
    ZF_RETURN_IF_ERROR(CheckNoInput("--html", options.html, {{options.config, "the configuration"}}));
    ZF_RETURN_IF_ERROR(AtHtml(ReplaceableFile(options.html).status()));
  }
  const std::string name = absl::StrCat(options.config, options.preset, options.parameters);
  ZF_ASSIGN_OR_RETURN(const ClusterPlan plan,
                      options.measure ? PlanOnThisMachine(name, options) : PlanOnAnotherMachine(name, options));
  if (!options.html.empty()) ZF_RETURN_IF_ERROR(AtHtml(WriteResultFile(options.html, ClusterPlanPage(plan))));
  if (options.json) {
    nlohmann::ordered_json document = {{"model", name}, {"parameters", plan.parameters}};
    document["cluster"] = ClusterPlanJson(plan);
    output.out << document.dump(2) << "\n";
  } else {
    output.out << ClusterPlanText(plan, output.out_terminal);
  }
  return 0;
}

absl::StatusOr<int> RunPlan(const PlanOptions& options, const Output& output) {
  if (!options.table.empty()) return RunTable(options, output);
  if (options.cluster.given() || options.measure) return RunOnCluster(options, output);
  if (!options.html.empty()) {
    return absl::InvalidArgumentError("--html: is of a plan on a cluster; give one, such as --gpus 8");
  }
  const std::vector<ConfigOverride> overrides = Overrides(options);
  ZF_ASSIGN_OR_RETURN(const PlanSize size,
                      ChoosePlanSize(options.config, options.preset, options.parameters, overrides, options.precision));
  for (const int64_t n : options.workers) {
    if (n < 1 || n > 1'000'000)
      return absl::InvalidArgumentError(absl::StrCat("--workers: must be 1 to 1000000, got ", n));
  }
  RankMemory rank;
  absl::Status exceeds;
  if (size.config) {
    ZF_ASSIGN_OR_RETURN(rank, PlanRankZero(*size.config));
    exceeds = trainer::CheckMemoryLimits(*size.config, rank.plan);
  }
  if (options.json) {
    nlohmann::ordered_json document = PlanJson(size, options);
    if (size.config) {
      document["rank_memory"] = MemoryPlanJson(*size.config, rank);
      document["exceeds"] =
          exceeds.ok() ? nlohmann::ordered_json() : nlohmann::ordered_json(std::string(exceeds.message()));
    }
    output.out << document.dump(2) << "\n";
  } else {
    output.out << PlanText(size, options, output.out_terminal);
    if (size.config) output.out << "\n" << MemoryPlanText(*size.config, rank, size.parameters, output.out_terminal);
    if (!exceeds.ok()) {
      const std::string text = absl::StrCat("train refuses this: ", exceeds.message());
      output.out << "\n" << WrapText(text, output.out_terminal.columns()) << "\n";
    }
  }
  return 0;
}

}  // namespace

void AddPlanCommand(CLI::App& app, CommandBody& body) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command =
      app.add_subcommand("plan", "Memory and traffic of a model under every stage, before anything runs.");
  command->add_option("CONFIG", options->config, "A configuration: plans its model, and the memory of one rank")
      ->type_name("FILE");
  command->add_option("--preset", options->preset, "A named model, such as gpt2-1558m")->type_name("PRESET");
  command->add_option("--parameters", options->parameters, "A model size, such as 124439808, 7.5B or 1T")
      ->type_name("COUNT");
  command
      ->add_option("--precision", options->precision,
                   "Of parameters and gradients; otherwise the configuration's, or bf16")
      ->type_name("bf16|fp16|fp32");
  Repeatable(
      command
          ->add_option("--set", options->sets, "Replaces one key of the configuration, such as parallel.zero_stage=3")
          ->type_name("KEY=VALUE"));
  command->add_option("--workers", options->workers, "Numbers of workers, separated by commas")
      ->type_name("N,...")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--node-gpus", options->node_gpus, "Workers on a node; their gradients are summed first")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  ClusterFlags& cluster = options->cluster;
  command->add_option("--gpus", cluster.gpus, "Plan on a cluster of N GPUs: memory, fit, traffic, time, a pick")
      ->type_name("N");
  command->add_option("--gpu", cluster.gpu, "The cluster's GPU, by its datasheet; h100 by default")
      ->type_name("v100|a100|a100-40|l40s|h100|h200|b200");
  command->add_option("--gpu-memory", cluster.gpu_memory, "Memory of a GPU, instead of the datasheet's")
      ->type_name("SIZE");
  command->add_option("--link", cluster.link, "Between nodes, of one GPU, in one direction; 50GB/s by default")
      ->type_name("BANDWIDTH");
  command->add_option("--host-memory", cluster.host_memory, "Memory of a node's host; 2TiB by default")
      ->type_name("SIZE");
  command
      ->add_option("--efficiency", cluster.efficiency, "Share of the peak that matrix products reach; 0.6 by default")
      ->type_name("SHARE");
  command
      ->add_option("--nvme", cluster.nvme,
                   "Of a node's disks, read and write together, for states in files; 5GB/s by default")
      ->type_name("BANDWIDTH");
  command->add_flag("--measure", options->measure,
                    "Plan on this machine's CPUs: rates are measured, and the best choices run for some steps");
  command->add_option("--table", options->table, "Instead, a table of the ZeRO paper, computed")->type_name("1|2|3");
  command->add_option("--html", options->html, "Write the plan on a cluster as one HTML page, too")->type_name("FILE");
  command->add_flag("--json", options->json, "Print one JSON document");
  command->footer(
      "Example:\n  zerofleet plan run.yaml --set parallel.workers=4\n"
      "  zerofleet plan --parameters 7.5B --workers 1,4,16,64\n"
      "  zerofleet plan --preset zero-8b --gpus 64 --gpu h100 --set parallel.zero_stage=3");
  command->callback([options, &body] { body = [options](const Output& output) { return RunPlan(*options, output); }; });
}

}  // namespace zerofleet::cli
