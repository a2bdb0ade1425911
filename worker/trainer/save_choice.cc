// See save_choice.h.
#include "worker/trainer/save_choice.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/units.h"
#include "worker/data/dataset.h"
#include "worker/trainer/rank_plan.h"
#include "worker/zero/training_state.h"

namespace zerofleet::trainer {
namespace {

struct Verdict {
  bool streams;
  std::string reason;
};

Verdict Auto(const v1::Config& config, const zero::ZeroLayout& layout, const memory::MemoryPlan& with_copy) {
  if (layout.states_in_file()) return {false, "the states are in a file"};
  if (layout.states_on_device() > 0 && layout.states_on_host() > 0) return {false, "the states are in two memories"};
  if (config.checkpoint().every_steps() == 0) return {true, "no update follows the save at the end"};
  const std::string& limit = config.memory().host_limit();
  const std::optional<int64_t> most = ParseBytes(limit);
  if (!most) return {false, "a copy holds no update up, and no memory.host_limit is set"};
  if (with_copy.Bytes(memory::Space::kHost) > *most) {
    return {true, absl::StrCat("with a copy the plan would exceed memory.host_limit, ", limit)};
  }
  return {false, "a copy holds no update up, and memory.host_limit has room for it"};
}

}  // namespace

bool TakesSnapshots(const v1::Config& config) { return config.checkpoint().snapshot_every_steps() > 0; }

bool KeepsReplicas(const v1::Config& config, int data_ranks) {
  return config.checkpoint().replicate() > 0 && data_ranks > 1;
}

SaveChoice ChooseSaves(const v1::Config& config, const model::Model& model, const zero::ZeroLayout& layout,
                       const device::Device& device) {
  const int64_t tokens = config.batch().micro_sequences() * config.model().context();
  const int arrays = data::ArraysPerToken(config.data());
  const bool in_place = device.host_addressable() || layout.states_on_device() == 0;
  const zero::SaveFrom stream = in_place ? zero::SaveFrom::kStates : zero::SaveFrom::kStagedStates;
  zero::HostCopies copies = {.saves = zero::SaveFrom::kSnapshot,
                             .snapshots = TakesSnapshots(config),
                             .replicas = KeepsReplicas(config, layout.options().world_size)};
  SaveChoice choice{.from = zero::SaveFrom::kSnapshot,
                    .reason = "",
                    .memory_bytes = zero::TrainingState::StoredBytes(layout),
                    .stream_bytes = in_place ? 0 : 2 * zero::StagingBytes(layout),
                    .plan = zero::PlanMemory(model, layout, tokens, copies, arrays)};
  bool streams = config.checkpoint().snapshot() == "stream";
  if (config.checkpoint().snapshot() == "auto") {
    Verdict verdict = Auto(config, layout, choice.plan);
    streams = verdict.streams;
    choice.reason = std::move(verdict.reason);
  }
  if (!streams) return choice;
  choice.from = copies.saves = stream;
  choice.plan = zero::PlanMemory(model, layout, tokens, copies, arrays);
  return choice;
}

absl::StatusOr<SaveChoice> PlanRankSaves(const v1::Config& config, const parallel::Mesh& mesh, device::Device& device) {
  ZF_ASSIGN_OR_RETURN(const RankPlan rank, RankPlan::Of(config, mesh));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<model::Model> model, rank.CreateModel(device));
  return ChooseSaves(config, *model, rank.layout(), device);
}

absl::StatusOr<memory::MemoryPlan> PlanRankMemory(const v1::Config& config, const parallel::Mesh& mesh,
                                                  device::Device& device) {
  ZF_ASSIGN_OR_RETURN(SaveChoice saves, PlanRankSaves(config, mesh, device));
  return std::move(saves.plan);
}

}  // namespace zerofleet::trainer
