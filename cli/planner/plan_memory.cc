// The plan's rows, as a table and as JSON; see plan_memory.h.
#include "cli/planner/plan_memory.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/units.h"
#include "cli/launcher/local_fleet.h"
#include "cli/planner/fraction.h"
#include "cli/planner/machine.h"
#include "cli/planner/model_states.h"
#include "cli/report/table.h"
#include "coordinator/batch_shares.h"
#include "worker/device/device.h"
#include "worker/model/foreign.h"
#include "worker/trainer/rank_plan.h"
#include "worker/trainer/rules.h"
#include "worker/trainer/save_choice.h"

namespace zerofleet::cli {
namespace {

constexpr memory::Space kSpaces[] = {memory::Space::kDevice, memory::Space::kHost};

std::string Sequences(const v1::Config& config) {
  return absl::StrCat(config.batch().micro_sequences(), " x ", config.model().context());
}

// Bytes of a worker process on the CPU, where both spaces are its own memory.
int64_t ProcessBytes(const v1::Config& config, const memory::MemoryPlan& plan) {
  return plan.Bytes(memory::Space::kDevice) + plan.Bytes(memory::Space::kHost) + OutsideBytes(config);
}

// A sentence about a PyTorch module's activations, which are in no row of the plan; empty for other models.
std::string ModuleText(const v1::Config& config) {
  if (!model::IsForeign(config.model())) return "";
  return absl::StrCat("The module's own passes keep about ", HumanBytes(config.model().foreign().saved_bytes()),
                      " from forward to backward, an estimate that no row above holds.\n");
}

std::string SavesText(const trainer::SaveChoice& saves) {
  const std::string stream = saves.stream_bytes > 0 ? HumanBytes(saves.stream_bytes) : "none";
  return absl::StrCat("Saves (checkpoint.snapshot): memory reserves ", HumanBytes(saves.memory_bytes),
                      " of host memory for a copy of the states, stream ", stream, "; here it is ", saves.word(),
                      saves.reason.empty() ? "" : absl::StrCat(", auto: ", saves.reason));
}

// The number of data-parallel ranks.
int64_t DataRanks(const v1::Config& config) { return config.parallel().workers() / config.parallel().tensor(); }

// How the micro-batches are dealt out in rounds; empty in the order of ranks, where all ranks have the same number.
std::string RoundsText(const v1::Config& config) {
  if (!coordinator::SumsInSampleOrder(config)) return "";
  const int64_t ranks = DataRanks(config);
  return absl::StrFormat(
      "In the order of samples the %d micro-batches of a step take %d rounds of %d ranks: %.1f%% of their passes "
      "count.\n",
      coordinator::LeavesOf(config), coordinator::MicroBatchesOf(config, ranks), ranks,
      100 * coordinator::RoundEfficiency(config, ranks));
}

// Which part of the optimizer's states is offloaded; empty with offload.fraction 1, the default.
std::string FractionText(const v1::Config& config, const RankMemory& rank) {
  const double given = config.offload().fraction();
  if (given == 1) return "";
  return absl::StrFormat("Of the states %.2f%% leave the device (offload.fraction%s).\n", 100 * rank.fraction,
                         given == trainer::kFractionByPlan ? ": auto" : "");
}

}  // namespace

absl::StatusOr<RankMemory> PlanRankZero(const v1::Config& given) {
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<device::Device> device,
                      device::CreateDevice({given.device(), ThreadsPerWorker(given.parallel().workers())}));
  ZF_ASSIGN_OR_RETURN(const v1::Config config, WithPlannedFraction(given, *device));
  RankMemory rank;
  rank.fraction = config.offload().fraction();
  rank.device = device->memory();
  const parallel::Mesh mesh = parallel::Mesh::OfOneNode(0, static_cast<int>(config.parallel().workers()),
                                                        static_cast<int>(config.parallel().tensor()));
  ZF_ASSIGN_OR_RETURN(rank.saves, trainer::PlanRankSaves(config, mesh, *device));
  rank.plan = rank.saves.plan;
  if (mesh.tensor().size() > 1) {
    ZF_ASSIGN_OR_RETURN(const trainer::RankPlan plan, trainer::RankPlan::Of(config, mesh));
    ZF_ASSIGN_OR_RETURN(const std::vector<zero::ScheduledCollective> schedule, plan.Schedule());
    rank.tensor_bytes = zero::BytesSent(schedule, parallel::kTensorGroup, mesh.tensor().size());
  }
  ZF_ASSIGN_OR_RETURN(rank.checkpointing, PlanCheckpointing(config, *device));
  return rank;
}

std::string MemoryPlanText(const v1::Config& config, const RankMemory& rank, double parameters,
                           const Terminal& terminal) {
  const memory::MemoryPlan& plan = rank.plan;
  TextTable rows({"space", "category", "buffer", "bytes", ""});
  for (const memory::MemoryRow& row : plan.rows) {
    rows.Add({memory::SpaceName(row.space), memory::CategoryName(row.category), row.name, absl::StrCat(row.bytes),
              HumanBytes(row.bytes)});
  }
  TextTable sums({"space", "category", "bytes", ""});
  for (const memory::Space space : kSpaces) {
    for (int c = 0; c < memory::kCategories; ++c) {
      const auto category = static_cast<memory::Category>(c);
      const int64_t bytes = plan.Bytes(space, category);
      if (bytes > 0)
        sums.Add({memory::SpaceName(space), memory::CategoryName(category), absl::StrCat(bytes), HumanBytes(bytes)});
    }
    const int64_t shared = plan.SharedBytes(space);
    if (shared > 0) sums.Add({memory::SpaceName(space), "shared", absl::StrCat(-shared), HumanBytes(-shared)});
    sums.Add({memory::SpaceName(space), "all", absl::StrCat(plan.Bytes(space)), HumanBytes(plan.Bytes(space))});
  }
  std::string driver;
  if (rank.device) {
    const int64_t outside = rank.device->used_bytes, planned = plan.Bytes(memory::Space::kDevice) + outside;
    driver = absl::StrCat("\nOn this GPU ", HumanBytes(planned), " of ", HumanBytes(rank.device->total_bytes),
                          " will be in use: ", HumanBytes(outside),
                          " outside the plan is taken already by context, libraries and other processes.\n");
    driver = WrapText(driver, terminal.columns());
  }
  if (!rank.device) {
    driver = WrapText(
        absl::StrCat("\nThe worker's process takes about ", HumanBytes(ProcessBytes(config, plan)),
                     ": its buffers, and ", HumanBytes(OutsideBytes(config)), " of code, libraries and stacks.\n"),
        terminal.columns());
  }
  const double states = static_cast<double>(plan.Bytes(memory::Space::kDevice, memory::Category::kParameters) +
                                            plan.Bytes(memory::Space::kDevice, memory::Category::kGradients) +
                                            plan.Bytes(memory::Space::kDevice, memory::Category::kOptimizer));
  const bool in_groups = config.parallel().tensor() > 1;
  const std::string tensor = in_groups ? absl::StrCat("\nTo its tensor group a rank sends ", rank.tensor_bytes,
                                                      " bytes in a step (", HumanBytes(rank.tensor_bytes), ").\n")
                                       : "";
  const std::string title =
      absl::StrCat("Memory of rank 0 of ", config.parallel().workers(),
                   in_groups ? absl::StrCat(" in tensor groups of ", config.parallel().tensor(),
                                            config.parallel().sequence() ? " with sequence parallelism" : "")
                             : "",
                   ", stage ", config.parallel().zero_stage(), ", ", config.precision(), ", micro-batches of ",
                   Sequences(config), " tokens: what a run reserves and reports");
  const std::string per_parameter = absl::StrFormat(
      "Model states (parameters, gradients, optimizer): %.2f bytes per parameter, of %.0f with nothing split",
      states / parameters, UnsplitBytesPerParameter(config.precision(), **optim::OptimizerOf(config)));
  return absl::StrCat(WrapText(title, terminal.columns()), "\n", rows.Render(2, terminal), "\nBy category\n",
                      sums.Render(2, terminal), "\n", WrapText(per_parameter, terminal.columns()), "\n",
                      WrapText(SavesText(rank.saves), terminal.columns()), "\n",
                      WrapText(FractionText(config, rank), terminal.columns()),
                      WrapText(RoundsText(config), terminal.columns()), "\n",
                      rank.checkpointing.empty() ? WrapText(ModuleText(config), terminal.columns())
                                                 : CheckpointingText(rank.checkpointing, terminal),
                      tensor, driver);
}

nlohmann::ordered_json MemoryPlanJson(const v1::Config& config, const RankMemory& rank) {
  const memory::MemoryPlan& plan = rank.plan;
  nlohmann::ordered_json document = {{"rank", 0},
                                     {"workers", config.parallel().workers()},
                                     {"zero_stage", config.parallel().zero_stage()},
                                     {"precision", config.precision()},
                                     {"micro_sequences", config.batch().micro_sequences()},
                                     {"context", config.model().context()}};
  auto& rows = document["rows"] = nlohmann::ordered_json::array();
  for (const memory::MemoryRow& row : plan.rows) {
    rows.push_back({{"space", memory::SpaceName(row.space)},
                    {"category", memory::CategoryName(row.category)},
                    {"name", row.name},
                    {"bytes", row.bytes}});
  }
  for (const memory::Space space : kSpaces) {
    auto& sums = document[memory::SpaceName(space)];
    for (int c = 0; c < memory::kCategories; ++c) {
      sums[memory::CategoryName(static_cast<memory::Category>(c))] =
          plan.Bytes(space, static_cast<memory::Category>(c));
    }
    sums["shared"] = -plan.SharedBytes(space);
  }
  if (config.parallel().tensor() > 1) {
    document["tensor"] = {{"ranks", config.parallel().tensor()}, {"sent_bytes_per_step", rank.tensor_bytes}};
  }
  if (coordinator::SumsInSampleOrder(config)) {
    document["round_efficiency"] = coordinator::RoundEfficiency(config, DataRanks(config));
  }
  if (config.offload().optimizer() != "none") document["offload_fraction"] = rank.fraction;
  document["saves"] = {{"snapshot", rank.saves.word()},
                       {"memory_bytes", rank.saves.memory_bytes},
                       {"stream_bytes", rank.saves.stream_bytes}};
  if (!rank.saves.reason.empty()) document["saves"]["reason"] = rank.saves.reason;
  document["checkpointing"] = CheckpointingJson(rank.checkpointing);
  if (!rank.device) document["process_bytes"] = ProcessBytes(config, plan);
  if (rank.device) {
    document["gpu"] = {{"planned_bytes", plan.Bytes(memory::Space::kDevice) + rank.device->used_bytes},
                       {"outside_the_plan_bytes", rank.device->used_bytes},
                       {"total_bytes", rank.device->total_bytes}};
  }
  return document;
}

}  // namespace zerofleet::cli
