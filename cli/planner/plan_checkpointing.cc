// Creates models that are never run, for the bytes that they would take; see plan_checkpointing.h.
#include "cli/planner/plan_checkpointing.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/units.h"
#include "cli/report/table.h"
#include "coordinator/batch_schedule.h"
#include "worker/model/foreign.h"
#include "worker/model/model.h"
#include "worker/trainer/rank_plan.h"

namespace zerofleet::cli {

namespace {

// Every combination of activation.partition and activation.offload that has an effect with this kind of checkpointing.
std::vector<v1::ActivationConfig> WithInputs(const std::string& checkpointing, bool keeps_inputs, bool can_divide) {
  std::vector<v1::ActivationConfig> all;
  for (const bool partition : {false, true}) {
    for (const char* const offload : {"none", "cpu"}) {
      v1::ActivationConfig& one = all.emplace_back();
      one.set_checkpointing(checkpointing);
      one.set_partition(partition);
      one.set_offload(offload);
      if (!keeps_inputs) return all;
    }
    if (!can_divide) break;
  }
  return all;
}

std::string NameOf(const v1::ActivationConfig& activation) {
  return absl::StrCat(activation.checkpointing(), activation.partition() ? ", partition" : "",
                      activation.offload() == "cpu" ? ", offload cpu" : "");
}

}  // namespace

absl::StatusOr<std::vector<CheckpointingCost>> PlanCheckpointing(const v1::Config& config, device::Device& device) {
  if (model::IsForeign(config.model())) return std::vector<CheckpointingCost>();  // it checkpoints by itself
  ZF_ASSIGN_OR_RETURN(const model::ModelSpec spec, model::ModelSpec::Create(config.model()));
  const auto root = std::llround(std::sqrt(static_cast<double>(config.model().layers())));
  const std::string& chosen = config.activation().checkpointing();
  const bool can_divide = config.parallel().tensor() > 1 && !config.parallel().sequence();
  std::vector<std::string> all = {"none", "selective", "block"};
  if (root > 1) all.push_back(model::EveryText(root));
  if (std::find(all.begin(), all.end(), chosen) == all.end()) all.push_back(chosen);
  const double tokens = static_cast<double>(coordinator::MostSequences(config.batch()) * config.model().context()) /
                        static_cast<double>(config.parallel().workers());
  std::vector<CheckpointingCost> costs;
  v1::Config with = config;
  for (const std::string& text : all) {
    ZF_ASSIGN_OR_RETURN(const model::Checkpointing kind, model::ParseCheckpointing(text));
    for (const v1::ActivationConfig& activation : WithInputs(text, kind.keeps_inputs(), can_divide)) {
      *with.mutable_activation() = activation;
      ZF_ASSIGN_OR_RETURN(const model::ModelRun run, trainer::ModelRunOf(with));
      ZF_ASSIGN_OR_RETURN(const std::unique_ptr<model::Model> model, model::Model::Create(config.model(), run, device));
      costs.push_back({.activation = activation,
                       .chosen = NameOf(activation) == NameOf(config.activation()),
                       .activation_bytes = model->ActivationBytes(),
                       .host_bytes = model->HostActivationBytes(),
                       .recomputed_flops = model->RecomputedFlopsPerToken() * tokens,
                       .share_of_model = model->RecomputedFlopsPerToken() / spec.FlopsPerToken()});
    }
  }
  std::stable_sort(costs.begin(), costs.end(),
                   [](const auto& a, const auto& b) { return a.activation_bytes > b.activation_bytes; });
  return costs;
}

std::string CheckpointingText(const std::vector<CheckpointingCost>& costs, const Terminal& terminal) {
  TextTable table({"activation.checkpointing", "bytes", "", "on the host", "computed again", ""});
  for (const CheckpointingCost& cost : costs) {
    table.Add({absl::StrCat(NameOf(cost.activation), cost.chosen ? " (chosen)" : ""),
               absl::StrCat(cost.activation_bytes), HumanBytes(cost.activation_bytes), HumanBytes(cost.host_bytes),
               absl::StrFormat("%.1f%%", 100 * cost.share_of_model),
               absl::StrFormat("%.3g FLOPs", cost.recomputed_flops)});
  }
  return absl::StrCat(
      "Activations by checkpointing, and the products that a step of one worker computes again, of the model's FLOPs\n",
      table.Render(2, terminal));
}

nlohmann::ordered_json CheckpointingJson(const std::vector<CheckpointingCost>& costs) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const CheckpointingCost& cost : costs) {
    rows.push_back({{"checkpointing", cost.activation.checkpointing()},
                    {"partition", cost.activation.partition()},
                    {"offload", cost.activation.offload()},
                    {"chosen", cost.chosen},
                    {"activation_bytes", cost.activation_bytes},
                    {"host_activation_bytes", cost.host_bytes},
                    {"recomputed_flops_per_step", std::llround(cost.recomputed_flops)},
                    {"recomputed_share_of_model_flops", cost.share_of_model}});
  }
  return rows;
}

}  // namespace zerofleet::cli
