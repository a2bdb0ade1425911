// The plan's rows, as a table and as JSON; see plan_memory.h.
#include "cli/commands/plan_memory.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/units.h"
#include "cli/commands/model_states.h"
#include "cli/launcher/local_fleet.h"
#include "cli/report/table.h"
#include "worker/device/device.h"
#include "worker/trainer/training_run.h"

namespace zerofleet::cli {
namespace {

constexpr Space kSpaces[] = {Space::kDevice, Space::kHost};

std::string Sequences(const v1::Config& config) {
  return absl::StrCat(config.batch().micro_sequences(), " x ", config.model().context());
}

}  // namespace

absl::StatusOr<RankMemory> PlanRankZero(const v1::Config& config) {
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                      CreateDevice({config.device(), ThreadsPerWorker(config.parallel().workers())}));
  RankMemory rank;
  rank.device = device->memory();
  ZF_ASSIGN_OR_RETURN(rank.plan, PlanRankMemory(config, Mesh::OfOneNode(0, config.parallel().workers()), *device));
  return rank;
}

std::string MemoryPlanText(const v1::Config& config, const RankMemory& rank, double parameters,
                           const Terminal& terminal) {
  const MemoryPlan& plan = rank.plan;
  TextTable rows({"space", "category", "buffer", "bytes", ""});
  for (const MemoryRow& row : plan.rows) {
    rows.Add(
        {SpaceName(row.space), CategoryName(row.category), row.name, absl::StrCat(row.bytes), HumanBytes(row.bytes)});
  }
  TextTable sums({"space", "category", "bytes", ""});
  for (const Space space : kSpaces) {
    for (int c = 0; c < kCategories; ++c) {
      const auto category = static_cast<Category>(c);
      const int64_t bytes = plan.Bytes(space, category);
      if (bytes > 0) sums.Add({SpaceName(space), CategoryName(category), absl::StrCat(bytes), HumanBytes(bytes)});
    }
    sums.Add({SpaceName(space), "all", absl::StrCat(plan.Bytes(space)), HumanBytes(plan.Bytes(space))});
  }
  std::string driver;
  if (rank.device) {
    const int64_t outside = rank.device->used_bytes, planned = plan.Bytes(Space::kDevice) + outside;
    driver = absl::StrCat("\nOn this GPU ", HumanBytes(planned), " of ", HumanBytes(rank.device->total_bytes),
                          " will be in use: ", HumanBytes(outside),
                          " outside the plan is taken already by context, libraries and other processes.\n");
    driver = WrapText(driver, terminal.columns());
  }
  const double states = static_cast<double>(plan.Bytes(Space::kDevice, Category::kParameters) +
                                            plan.Bytes(Space::kDevice, Category::kGradients) +
                                            plan.Bytes(Space::kDevice, Category::kOptimizer));
  const std::string title = absl::StrCat(
      "Memory of rank 0 of ", config.parallel().workers(), ", stage ", config.parallel().zero_stage(), ", ",
      config.precision(), ", micro-batches of ", Sequences(config), " tokens: what a run reserves and reports");
  const std::string per_parameter = absl::StrFormat(
      "Model states (parameters, gradients, optimizer): %.2f bytes per parameter, of %.0f with nothing split",
      states / parameters, UnsplitBytesPerParameter(config.precision(), **FindOptimizer(config.optimizer().name())));
  return absl::StrCat(WrapText(title, terminal.columns()), "\n", rows.Render(2, terminal), "\nBy category\n",
                      sums.Render(2, terminal), "\n", WrapText(per_parameter, terminal.columns()), "\n", driver);
}

nlohmann::ordered_json MemoryPlanJson(const v1::Config& config, const RankMemory& rank) {
  const MemoryPlan& plan = rank.plan;
  nlohmann::ordered_json document = {{"rank", 0},
                                     {"workers", config.parallel().workers()},
                                     {"zero_stage", config.parallel().zero_stage()},
                                     {"precision", config.precision()},
                                     {"micro_sequences", config.batch().micro_sequences()},
                                     {"context", config.model().context()}};
  auto& rows = document["rows"] = nlohmann::ordered_json::array();
  for (const MemoryRow& row : plan.rows) {
    rows.push_back({{"space", SpaceName(row.space)},
                    {"category", CategoryName(row.category)},
                    {"name", row.name},
                    {"bytes", row.bytes}});
  }
  for (const Space space : kSpaces) {
    auto& sums = document[SpaceName(space)];
    for (int c = 0; c < kCategories; ++c) {
      sums[CategoryName(static_cast<Category>(c))] = plan.Bytes(space, static_cast<Category>(c));
    }
  }
  if (rank.device) {
    document["gpu"] = {{"planned_bytes", plan.Bytes(Space::kDevice) + rank.device->used_bytes},
                       {"outside_the_plan_bytes", rank.device->used_bytes},
                       {"total_bytes", rank.device->total_bytes}};
  }
  return document;
}

}  // namespace zerofleet::cli
