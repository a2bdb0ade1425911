// From a configuration and a place to what a rank is; see rank_plan.h.
#include "worker/trainer/rank_plan.h"

#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "coordinator/batch_shares.h"
#include "worker/model/checkpointing.h"
#include "worker/optim/optimizer.h"

namespace zerofleet::trainer {
namespace {

zero::StatePlacement PlacementOf(const v1::OffloadConfig& offload) {
  using zero::StatePlacement;
  StatePlacement placement;
  if (offload.optimizer() == "cpu") placement.residence = StatePlacement::Residence::kHost;
  if (offload.optimizer() == "nvme") placement.residence = StatePlacement::Residence::kFile;
  placement.fraction = offload.fraction();
  if (offload.delayed_update().after_steps() > 0) placement.timing = StatePlacement::Timing::kDelayed;
  placement.looks_ahead = offload.delayed_update().lookahead();
  if (offload.speculative()) placement.timing = StatePlacement::Timing::kSpeculative;
  placement.parameters_on_host = offload.parameters() == "cpu";
  return placement;
}

}  // namespace

device::DType ComputeType(const v1::Config& config) {
  for (device::DType dtype : {device::DType::kF32, device::DType::kF16}) {
    if (config.precision() == device::DTypeName(dtype)) return dtype;
  }
  return device::DType::kBF16;
}

absl::StatusOr<model::ModelRun> ModelRunOf(const v1::Config& config) {
  ZF_ASSIGN_OR_RETURN(const model::Checkpointing checkpointing,
                      model::CheckpointingOf(config.activation(), config.buffers()));
  return model::ModelRun{.dtype = ComputeType(config),
                         .sequences = config.batch().micro_sequences(),
                         .time = config.model().context(),
                         .checkpointing = checkpointing,
                         .sharing = {.parts = config.parallel().tensor(), .sequence = config.parallel().sequence()},
                         .terms = {.label_smoothing = static_cast<float>(config.loss().label_smoothing()),
                                   .z_loss = static_cast<float>(config.loss().z_loss())}};
}

zero::ZeroOptions ZeroOptionsOf(const v1::Config& config, const parallel::Group& data) {
  const bool in_sample_order = coordinator::SumsInSampleOrder(config);
  const absl::StatusOr<const optim::OptimizerRow*> optimizer = optim::OptimizerOf(config);
  ZF_CHECK(optimizer.ok());
  return {.stage = config.parallel().zero_stage(),
          .dtype = ComputeType(config),
          .micro_batches = coordinator::MicroBatchesOf(config, data.size()),
          .rank = data.rank,
          .world_size = data.size(),
          .optimizer = *optimizer,
          .reduce = config.reduce().every() == "step" ? zero::ReduceEvery::kStep : zero::ReduceEvery::kMicroBatch,
          .order = in_sample_order ? zero::ReduceOrder::kSamples : zero::ReduceOrder::kRanks,
          .leaves = in_sample_order ? coordinator::LeavesOf(config) : 0,
          .bucket_bytes = config.buffers().bucket_bytes(),
          .placement = PlacementOf(config.offload()),
          .histograms = config.histograms().every_steps() > 0};
}

absl::StatusOr<RankPlan> RankPlan::Of(const v1::Config& config, const parallel::Mesh& mesh) {
  const model::ModelPart part = {.index = mesh.tensor().rank, .count = mesh.tensor().size()};
  ZF_ASSIGN_OR_RETURN(model::ModelSpec spec, model::ModelSpec::Create(config.model(), part));
  ZF_RETURN_IF_ERROR(optim::OptimizerOf(config).status());
  ZF_ASSIGN_OR_RETURN(const model::ModelRun run, ModelRunOf(config));
  return RankPlan(config, mesh, std::move(spec), run);
}

RankPlan::RankPlan(const v1::Config& config, const parallel::Mesh& mesh, model::ModelSpec spec,
                   const model::ModelRun& run)
    : config_(config), spec_(std::move(spec)), run_(run), layout_(spec_, ZeroOptionsOf(config, mesh.data())) {}

absl::StatusOr<std::unique_ptr<model::Model>> RankPlan::CreateModel(device::Device& device) const {
  return model::Model::Create(config_.model(), run_, device);
}

absl::StatusOr<std::vector<zero::ScheduledCollective>> RankPlan::Schedule(const zero::StepChecks& checks) const {
  return zero::StepSchedule({config_.model(), config_.optimizer(), spec_, layout_, run_, checks});
}

}  // namespace zerofleet::trainer
