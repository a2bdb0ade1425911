// Entering and leaving, part by part; see view_parts.h.
#include "worker/trainer/view_parts.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/units.h"
#include "coordinator/batch_shares.h"
#include "worker/trainer/memory_limits.h"
#include "worker/trainer/save_choice.h"
#include "worker/zero/memory_plan.h"
#include "worker/zero/state_file.h"

namespace zerofleet::trainer {
namespace {

absl::Status CheckShares(const v1::Config& config, const parallel::Group& data) {
  if (coordinator::CanShare(config, data.size())) return absl::OkStatus();
  const v1::BatchConfig& batch = config.batch();
  return absl::FailedPreconditionError(
      absl::StrCat("batch.global_sequences: ", coordinator::BatchText(batch), " cannot be shared equally by ",
                   data.size(), " ranks in micro-batches of ", batch.micro_sequences(), " sequences"));
}

absl::StatusOr<LiveStates> ReadLive(zero::SaveFrom from, const zero::ZeroLayout& layout, device::Device& device,
                                    memory::Arena& host_arena) {
  if (from == zero::SaveFrom::kStates) return LiveStates{};
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<device::Stream> copies, device.CreateStream());
  return LiveStates{std::move(copies),
                    {host_arena.Take(zero::kStagingRow), 2 * static_cast<size_t>(zero::StagingBytes(layout))}};
}

}  // namespace

std::vector<std::string> GroupsOf(const v1::Config& config) {
  if (config.parallel().tensor() > 1) return {parallel::kDataGroup, parallel::kTensorGroup};
  return {parallel::kDataGroup};
}

ViewParts::ViewParts(const parallel::Mesh& where, RankPlan rank, parallel::GroupCommunicators joined)
    : mesh(where), plan(std::move(rank)), spec(plan.spec()), layout(plan.layout()), groups(std::move(joined)) {}

absl::StatusOr<std::unique_ptr<ViewParts>> ViewParts::Build(const Run& run, const parallel::Mesh& mesh,
                                                            parallel::GroupCommunicators groups) {
  ZF_RETURN_IF_ERROR(CheckShares(run.config, mesh.data()));
  if (mesh.tensor().size() != run.config.parallel().tensor()) {
    return absl::InternalError(absl::StrCat("the view has tensor groups of ", mesh.tensor().size(),
                                            ", parallel.tensor is ", run.config.parallel().tensor()));
  }
  ZF_ASSIGN_OR_RETURN(RankPlan rank, RankPlan::Of(run.config, mesh));
  std::unique_ptr<ViewParts> parts(new ViewParts(mesh, std::move(rank), std::move(groups)));
  ZF_ASSIGN_OR_RETURN(parts->stream, run.device.CreateStream());
  const SaveChoice saves = ChooseSaves(run.config, run.model, parts->layout, run.device);
  const memory::MemoryPlan& memory = saves.plan;
  ZF_RETURN_IF_ERROR(CheckMemoryLimits(run.config, memory));
  ZF_ASSIGN_OR_RETURN(parts->device_arena, memory::Arena::Create(memory, memory::Space::kDevice, run.device));
  ZF_ASSIGN_OR_RETURN(parts->host_arena, memory::Arena::Create(memory, memory::Space::kHost, run.device));
  if (const std::optional<int64_t> most = ParseBytes(run.config.memory().device_limit())) {
    ZF_RETURN_IF_ERROR(run.model.LimitOwnMemory(*most - memory.Bytes(memory::Space::kDevice)));
  }
  if (parts->layout.states_in_file()) {
    absl::StatusOr<std::unique_ptr<memory::ScratchFile>> scratch =
        memory::ScratchFile::Create(run.config.offload().dir(), absl::StrCat("zerofleet-states-rank-", mesh.rank()),
                                    zero::StateFile::FileBytes(parts->layout));
    if (!scratch.ok()) return Annotate(scratch.status(), "offload.dir");
    parts->scratch = *std::move(scratch);
  }
  parts->engine = std::make_unique<zero::ZeroEngine>(
      zero::EngineParts{parts->spec, parts->layout, run.model, run.device, *parts->stream, *parts->device_arena,
                        *parts->host_arena, parts->groups.data(), mesh.data().ranks,
                        mesh.tensor().size() > 1 ? &parts->groups.Of(parallel::kTensorGroup) : nullptr,
                        parts->scratch.get()},
      run.config.optimizer());
  std::optional<LiveStates> live;
  if (saves.from == zero::SaveFrom::kSnapshot) {
    run.saved.EnterView(zero::TrainingState::StoredBytes(parts->layout), *parts->host_arena);
  } else {
    run.saved.Release();
    ZF_ASSIGN_OR_RETURN(live, ReadLive(saves.from, parts->layout, run.device, *parts->host_arena));
  }
  parts->checkpointer =
      std::make_unique<Checkpointer>(mesh.rank(), parts->layout, parts->engine->state(), run.device, *parts->stream,
                                     *parts->host_arena, run.saved, run.clock, std::move(live), run.saves);
  return parts;
}

// After an error the stream may still have work that touches the arenas: once the collectives have released it, it
// finishes soon, unless the device hangs.
ViewParts::~ViewParts() {
  constexpr double kDrainLimitSeconds = 10;
  checkpointer.reset();
  groups = parallel::GroupCommunicators({});
  if (stream != nullptr) stream->Record()->SettledWithin(kDrainLimitSeconds);
}

}  // namespace zerofleet::trainer
