// See cluster_plan.h; the page is in plan_page.cc.
#include "cli/planner/cluster_plan.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/units.h"
#include "cli/config/config.h"
#include "cli/planner/model_states.h"
#include "cli/planner/paper_tables.h"
#include "cli/planner/plan_size.h"
#include "cli/report/bars.h"
#include "cli/report/table.h"
#include "coordinator/batch_schedule.h"
#include "worker/model/foreign.h"
#include "worker/model/spec.h"

namespace zerofleet::cli {
namespace {

constexpr memory::Space kBothSpaces[] = {memory::Space::kDevice, memory::Space::kHost};

std::string TimeText(double seconds) {
  if (seconds >= 1) return absl::StrFormat("%.2f s", seconds);
  return seconds >= 1e-3 ? absl::StrFormat("%.1f ms", seconds * 1e3) : absl::StrFormat("%.0f us", seconds * 1e6);
}

struct TimePart {
  const char* key;
  const char* name;
  double seconds;
};
std::vector<TimePart> TimeParts(const StepTime& time) {
  return {{"forward", "forward", time.forward},
          {"backward", "backward", time.backward},
          {"exposed_gather", "gathers not hidden", time.exposed_gather},
          {"exposed_reduce", "reductions not hidden", time.exposed_reduce},
          {"tensor", "tensor group", time.tensor},
          {"update", "update", time.update},
          {"exposed_copies", "host copies not hidden", time.exposed_copies}};
}

std::string MemoryBars(const ClusterPlan& plan, int columns) {
  std::vector<Bar> device, host;
  for (int c = 0; c < memory::kCategories; ++c) {
    const auto category = static_cast<memory::Category>(c);
    const int64_t on_device = plan.rank.plan.Bytes(memory::Space::kDevice, category),
                  on_host = plan.rank.plan.Bytes(memory::Space::kHost, category);
    device.push_back({memory::CategoryName(category), HumanBytes(on_device), static_cast<double>(on_device)});
    if (on_host > 0)
      host.push_back({memory::CategoryName(category), HumanBytes(on_host), static_cast<double>(on_host)});
  }
  const MemoryNeed& need = plan.rank.need;
  device.push_back({"shared", HumanBytes(-plan.rank.plan.SharedBytes(memory::Space::kDevice)), 0});
  device.push_back({"outside", HumanBytes(need.outside), static_cast<double>(need.outside)});
  device.push_back({"peak", HumanBytes(need.device_sum()), static_cast<double>(need.device_sum())});
  host.push_back({"peak", HumanBytes(need.host), static_cast<double>(need.host)});
  return absl::StrCat("Device memory of rank 0; a full bar is ", HumanBytes(need.device_limit), "\n",
                      RenderBars(device, static_cast<double>(need.device_limit), columns),
                      "Host memory of rank 0; a full bar is its share, ", HumanBytes(need.host_limit), "\n",
                      RenderBars(host, static_cast<double>(need.host_limit), columns));
}

std::string SettingsText(const v1::Config& config) {
  const v1::ActivationConfig& activation = config.activation();
  return absl::StrCat(
      "stage ", config.parallel().zero_stage(), ", tensor ", config.parallel().tensor(), ", ", config.precision(), ", ",
      MicroBatchesOf(config), " x ", config.batch().micro_sequences(), " x ", config.model().context(),
      " tokens a rank and step",
      config.batch().schedule_size() > 0
          ? absl::StrCat(" (the largest; steps take ", coordinator::BatchText(config.batch()), " sequences, all ",
                         config.steps(), " together ",
                         HumanCount(coordinator::SequencesInAll(config.batch(), static_cast<double>(config.steps())) *
                                    static_cast<double>(config.model().context())),
                         " tokens)")
          : "",
      ", checkpointing ", activation.checkpointing(), activation.partition() ? " in parts" : "",
      activation.offload() == "cpu" ? " on the host" : "", ", offload ", config.offload().optimizer());
}

std::string LongestText(const ClusterPlan& plan) {
  return plan.longest ? absl::StrCat(*plan.longest, " tokens") : "none with these settings";
}

std::string SmallestText(const ClusterPlan& plan) {
  if (!plan.smallest) return "none with these settings, however many devices";
  return absl::StrCat(*plan.smallest, *plan.smallest == 1 ? " device" : " devices");
}

nlohmann::ordered_json LinkJson(const LinkBytes& bytes) {
  return {{"within_node_bytes", std::llround(bytes.peer)}, {"between_nodes_bytes", std::llround(bytes.link)}};
}

nlohmann::ordered_json ChoiceJson(const Choice& choice) {
  return {{"name", choice.Name()},
          {"zero_stage", choice.config.parallel().zero_stage()},
          {"tensor", choice.config.parallel().tensor()},
          {"micro_sequences", choice.config.batch().micro_sequences()},
          {"checkpointing", choice.config.activation().checkpointing()},
          {"offload", choice.config.offload().optimizer()},
          {"step_seconds", choice.estimate.time.seconds()},
          {"measured_seconds",
           choice.measured_seconds ? nlohmann::ordered_json(*choice.measured_seconds) : nlohmann::ordered_json()},
          {"tokens_per_second", choice.estimate.tokens_per_second},
          {"device_bytes", choice.estimate.need.device_sum()},
          {"host_bytes", choice.estimate.need.host}};
}

}  // namespace

std::string LargestText(const ClusterPlan& plan) {
  if (!plan.largest) return "none with these settings";
  return absl::StrCat(HumanCount(plan.largest->parameters), " parameters (", plan.largest->model.layers(),
                      " layers of ", plan.largest->model.hidden(), ")",
                      FreezesWeights(plan.config.model()) ? ", all of them trained" : "");
}

std::string ConventionText(const v1::Config& config) {
  const optim::OptimizerRow& optimizer = **optim::OptimizerOf(config);
  return absl::StrFormat(
      "Convention: %1$.0f bytes per parameter, %1$.0f per gradient, %2$d of optimizer states (%3$s), %4$.0f with "
      "nothing split; KiB, MiB and GiB are powers of 1024, GB and TB of 1000.",
      ElementBytes(config.precision()), optimizer.StateBytesPerParameter(), optimizer.name,
      UnsplitBytesPerParameter(config.precision(), optimizer));
}

PredictedStep PredictedStepOf(const ClusterPlan& plan) {
  const RankEstimate& rank = plan.rank;
  PredictedStep step = {rank.time.seconds(), rank.tokens_per_second, rank.time.mfu};
  if (!plan.probe) return step;
  const double faster = step.seconds / plan.probe->seconds;
  return {plan.probe->seconds, step.tokens_per_second * faster, step.mfu * faster};
}

std::string PredictedFrom(const ClusterPlan& plan) {
  constexpr double kNotedVariation = 0.05;
  if (!plan.probe) return "at the rates above";
  std::vector<std::string> runs;
  for (const ProbePoint& point : plan.probe->points) {
    runs.push_back(absl::StrFormat("%d layers and %d micro-batches (%s)", point.layers, point.micro_batches,
                                   TimeText(point.seconds)));
  }
  std::string text = absl::StrCat("from runs of ", absl::StrJoin(runs, ", "));
  const double slower = plan.probe->slowest_seconds / plan.probe->seconds - 1;
  if (slower > kNotedVariation) {
    absl::StrAppendFormat(&text, "; the slowest of their rounds says %.0f%% more: the speed of this machine varies",
                          100 * slower);
  }
  return text;
}

absl::StatusOr<ClusterPlan> PlanOnCluster(const std::string& name, const v1::Config& config, const Cluster& cluster) {
  if (model::IsForeign(config.model())) {
    return absl::InvalidArgumentError(
        "model.torch: a plan on a cluster is of a built-in family, whose speed is known beforehand; `zerofleet plan "
        "CONFIG` has the memory of a module");
  }
  ClusterPlan plan{.name = name, .config = config, .cluster = cluster};
  ZF_ASSIGN_OR_RETURN(const model::ModelSpec spec, model::ModelSpec::Create(config.model()));
  plan.parameters = static_cast<double>(spec.parameters());
  ZF_ASSIGN_OR_RETURN(plan.rank, EstimateRank(config, cluster));
  ZF_ASSIGN_OR_RETURN(plan.largest, FindLargestModel(config, cluster));
  ZF_ASSIGN_OR_RETURN(plan.longest, FindLongestContext(config, cluster));
  const bool here = cluster.shared_bytes > 0;
  if (!here) {
    ZF_ASSIGN_OR_RETURN(plan.smallest, FindSmallestCluster(config, cluster));
  }
  std::set<std::string> open(std::begin(kPickedKeys), std::end(kPickedKeys));
  plan.pick = PickSettings(config, open, cluster);
  if (here) {
    plan.notes.push_back(absl::StrCat("Memory is the engine's own plan of rank 0, and ",
                                      HumanBytes(cluster.outside_bytes),
                                      " of code, libraries and stacks. Rates were measured just now; a machine with "
                                      "other work is slower than it says."));
    return plan;
  }
  if (config.parallel().tensor() > 1 || (plan.pick.ok() && plan.pick->first.config.parallel().tensor() > 1)) {
    plan.notes.emplace_back(
        "parallel.tensor above 1 is planned for any device; it has run with two ranks on one GPU, never between GPUs.");
  }
  plan.notes.push_back(absl::StrFormat(
      "Memory is the engine's own plan of rank 0, with the CPU device's scratch; %s outside it (context, libraries) "
      "and %.0f%% of the peak for products are assumed. With 60%% the steps of three models on one H100 were within "
      "8%% "
      "of the prediction; no step of several GPUs has been compared.",
      HumanBytes(kGpuOutsideBytes), 100 * cluster.efficiency));
  return plan;
}

std::string ClusterPlanText(const ClusterPlan& plan, const Terminal& terminal) {
  const int columns = terminal.text_columns();
  const RankEstimate& rank = plan.rank;
  const auto wrapped = [&](const std::string& text) { return absl::StrCat(WrapText(text, columns), "\n"); };
  std::string text = wrapped(absl::StrCat(plan.name, ", ", HumanCount(plan.parameters), " parameters on ",
                                          ClusterText(plan.cluster), ": ", SettingsText(plan.config)));
  absl::StrAppend(&text, "\n", MemoryBars(plan, columns), "\n");
  TextTable answers({"question", "answer"});
  answers.Add({"does it fit", rank.need.Verdict()});
  answers.Add({"largest model that fits", LargestText(plan)});
  answers.Add({"longest context that fits", LongestText(plan)});
  if (plan.cluster.shared_bytes == 0) answers.Add({"smallest cluster that fits it", SmallestText(plan)});
  absl::StrAppend(&text, answers.Render(2, terminal), "\n");

  TextTable sent({"sent by rank 0 in a step, GB", "within node", "between nodes"});
  const auto add = [&](const char* name, const LinkBytes& bytes) {
    sent.Add({name, absl::StrFormat("%.3f", bytes.peer / 1e9), absl::StrFormat("%.3f", bytes.link / 1e9)});
  };
  add("gather parameters", rank.traffic.gather);
  add("reduce gradients", rank.traffic.reduce);
  if (plan.config.parallel().tensor() > 1) add("tensor group", rank.traffic.tensor);
  add("all", rank.traffic.sum());
  absl::StrAppend(&text, sent.Render(2, terminal));
  if (rank.host_link_bytes > 0) {
    absl::StrAppend(&text, absl::StrFormat("  copied to the host and back: %.3f GB\n", rank.host_link_bytes / 1e9));
  }

  std::vector<Bar> times;
  for (const TimePart& part : TimeParts(rank.time)) {
    if (part.seconds > 0) times.push_back({part.name, TimeText(part.seconds), part.seconds});
  }
  const PredictedStep step = PredictedStepOf(plan);
  absl::StrAppend(&text, "\n",
                  wrapped(absl::StrFormat("Predicted step: %s, %s tokens/s, MFU %.1f%%, %s", TimeText(step.seconds),
                                          HumanCount(step.tokens_per_second), 100 * step.mfu, PredictedFrom(plan))));
  if (plan.probe) {
    absl::StrAppend(&text, wrapped(absl::StrCat("At the rates above: ", TimeText(rank.time.seconds()))));
  }
  absl::StrAppend(&text, RenderBars(times, rank.time.seconds(), columns), "\n");
  if (plan.pick.ok()) {
    const Pick& pick = *plan.pick;
    absl::StrAppend(&text, wrapped(absl::StrCat("Pick: ", pick.first.Name(), ": ", pick.reason, " (", pick.fitting,
                                                " of ", pick.tried, " tried fit).")));
  } else {
    absl::StrAppend(&text, wrapped(absl::StrCat("Pick: ", plan.pick.status().message(), ".")));
  }
  absl::StrAppend(&text, "\n", wrapped(ConventionText(plan.config)));
  for (const std::string& note : plan.notes) absl::StrAppend(&text, wrapped(note));
  return text;
}

nlohmann::ordered_json ClusterPlanJson(const ClusterPlan& plan) {
  const Cluster& cluster = plan.cluster;
  const RankEstimate& rank = plan.rank;
  nlohmann::ordered_json document = {
      {"gpus", cluster.gpus},
      {"gpu", cluster.device},
      {"gpu_memory_bytes", cluster.device_bytes},
      {"node_gpus", cluster.node_gpus},
      {"link_bytes_per_second", cluster.link_bytes_per_second},
      {"host_memory_bytes", cluster.host_bytes},
      {"nvme_bytes_per_second", cluster.nvme_bytes_per_second},
      {"efficiency", cluster.efficiency},
      {"peak_flops_per_second", cluster.flops_per_second},
      {"memory_bytes_per_second", cluster.memory_bytes_per_second},
      {"peer_bytes_per_second", cluster.peer_bytes_per_second},
      {"operation_seconds", cluster.operation_seconds},
      {"convention", ConventionText(plan.config)},
      {"settings", SettingsText(plan.config)},
      {"fits", rank.need.fits()},
      {"verdict", rank.need.Verdict()},
      {"device_peak_bytes", rank.need.device_sum()},
      {"outside_the_plan_bytes", rank.need.outside},
      {"host_peak_bytes", rank.need.host},
      {"host_limit_bytes", rank.need.host_limit},
  };
  for (const memory::Space space : kBothSpaces) {
    auto& sums = document["memory"][memory::SpaceName(space)];
    for (int c = 0; c < memory::kCategories; ++c) {
      const auto category = static_cast<memory::Category>(c);
      sums[memory::CategoryName(category)] = rank.plan.Bytes(space, category);
    }
    sums["shared"] = -rank.plan.SharedBytes(space);
  }
  document["traffic"] = {{"gather", LinkJson(rank.traffic.gather)},
                         {"reduce", LinkJson(rank.traffic.reduce)},
                         {"tensor", LinkJson(rank.traffic.tensor)},
                         {"host_copies_bytes", std::llround(rank.host_link_bytes)}};
  const PredictedStep predicted = PredictedStepOf(plan);
  auto& step = document["step"] = {{"seconds", predicted.seconds},
                                   {"tokens_per_second", predicted.tokens_per_second},
                                   {"mfu", predicted.mfu},
                                   {"at_rates_seconds", rank.time.seconds()}};
  for (const TimePart& part : TimeParts(rank.time)) step["parts"][part.key] = part.seconds;
  if (plan.probe) {
    step["slowest_round_seconds"] = plan.probe->slowest_seconds;
    auto& runs = step["runs"] = nlohmann::ordered_json::array();
    for (const ProbePoint& point : plan.probe->points) {
      runs.push_back({{"layers", point.layers},
                      {"micro_batches", point.micro_batches},
                      {"seconds", point.seconds},
                      {"weight", point.weight}});
    }
  }
  document["largest_model_parameters"] = plan.largest ? nlohmann::ordered_json(plan.largest->parameters) : nullptr;
  document["longest_context"] = plan.longest ? nlohmann::ordered_json(*plan.longest) : nullptr;
  document["smallest_cluster_gpus"] = plan.smallest ? nlohmann::ordered_json(*plan.smallest) : nullptr;
  if (plan.pick.ok()) {
    document["pick"] = {{"first", ChoiceJson(plan.pick->first)},
                        {"second", plan.pick->second ? ChoiceJson(*plan.pick->second) : nlohmann::ordered_json()},
                        {"reason", plan.pick->reason},
                        {"tried", plan.pick->tried},
                        {"fitting", plan.pick->fitting}};
  } else {
    document["pick"] = {{"error", plan.pick.status().message()}};
  }
  document["notes"] = plan.notes;
  return document;
}

absl::StatusOr<std::vector<ConfigurationReach>> PlanPaperConfigurations() {
  // The paper says that figure 6 has a fixed batch and tensor degree; 400 devices and 16 sequences are our assumption.
  ZF_ASSIGN_OR_RETURN(Cluster cluster, ParseCluster({.gpus = "400", .gpu = "v100", .node_gpus = "16"}));
  ZF_ASSIGN_OR_RETURN(v1::Config base, DefaultConfig("zero-40b"));
  base.mutable_parallel()->set_workers(static_cast<int>(cluster.gpus));
  base.mutable_parallel()->set_tensor(16);
  base.mutable_batch()->set_micro_sequences(16);
  base = WithMicroBatches(base, 1);
  std::vector<ConfigurationReach> reaches;
  for (const PaperConfiguration& each : PaperConfigurations()) {
    v1::Config config = base;
    Apply(each, config);
    ZF_ASSIGN_OR_RETURN(const std::optional<LargestModel> largest, FindLargestModel(config, cluster));
    reaches.push_back({each.name, each.paper, each.papers_largest, largest ? largest->parameters : 0});
  }
  return reaches;
}

std::string Table3Text(const std::vector<ConfigurationReach>& reaches, const Terminal& terminal) {
  TextTable table({"configuration", "largest here", "in the paper", "with"});
  for (const ConfigurationReach& reach : reaches) {
    table.Add({reach.name, HumanCount(reach.largest), reach.papers_largest > 0 ? HumanCount(reach.papers_largest) : "",
               reach.paper});
  }
  return absl::StrCat(
      "ZeRO, table 3 and figure 6: the largest model of each configuration, parameters\n", table.Render(2, terminal),
      "\n",
      WrapText(
          "Here: the engine's memory plan of rank 0 at tensor degree 16 on 400 devices of 32 GiB, nodes of 16, 16 "
          "sequences of 1024 tokens, every block's input kept, 1 GiB outside the plan. In the paper: what trained, on "
          "as many devices as it had. C_B and M_D are always on: buffers of whole units, and planned arenas.",
          terminal.text_columns()),
      "\n");
}

nlohmann::ordered_json Table3Json(const std::vector<ConfigurationReach>& reaches) {
  nlohmann::ordered_json document = {{"table", 3}};
  auto& rows = document["rows"] = nlohmann::ordered_json::array();
  for (const ConfigurationReach& reach : reaches) {
    rows.push_back({{"configuration", reach.name},
                    {"with", reach.paper},
                    {"largest_parameters", reach.largest},
                    {"papers_largest_parameters", reach.papers_largest}});
  }
  return document;
}

}  // namespace zerofleet::cli
