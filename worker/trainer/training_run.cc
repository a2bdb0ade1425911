// The parts of one rank, combined; see training_run.h.
#include "worker/trainer/training_run.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/digest.h"
#include "base/status.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/same_model.h"
#include "worker/checkpoint/shard_reader.h"
#include "worker/optim/schedule.h"
#include "worker/trainer/rank_report.h"
#include "worker/trainer/tensor_table.h"
#include "worker/zero/memory_plan.h"
#include "worker/zero/schedule.h"

namespace zerofleet {
namespace {

constexpr uint64_t kStopFlag = 1;

int64_t MicroBatches(const v1::Config& config) {
  return config.batch().global_sequences() / (config.parallel().workers() * config.batch().micro_sequences());
}

DType ComputeType(const std::string& precision) {
  for (DType dtype : {DType::kF32, DType::kF16}) {
    if (precision == DTypeName(dtype)) return dtype;
  }
  return DType::kBF16;
}

}  // namespace

ZeroOptions ZeroOptionsOf(const v1::Config& config, int rank) {
  return {.stage = config.parallel().zero_stage(),
          .dtype = ComputeType(config.precision()),
          .micro_batches = MicroBatches(config),
          .rank = rank,
          .world_size = config.parallel().workers()};
}

absl::StatusOr<MemoryPlan> PlanRankMemory(const v1::Config& config, int rank, Device& device) {
  ZF_ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::Create(config.model()));
  const ZeroLayout layout(spec, ZeroOptionsOf(config, rank));
  const int64_t sequences = config.batch().micro_sequences(), context = config.model().context();
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                      Model::Create(config.model(), layout.options().dtype, device, sequences, context));
  return PlanMemory(*model, layout, sequences * context);
}

// After an error the stream may still have work that touches the arenas: once the collectives have released it, it
// finishes soon, unless the device hangs.
TrainingRun::~TrainingRun() {
  constexpr double kDrainLimitSeconds = 10;
  checkpointer_.reset();
  communicator_.reset();
  if (stream_ != nullptr) stream_->Record()->SettledWithin(kDrainLimitSeconds);
}

ZeroOptions TrainingRun::Options(int rank) const { return ZeroOptionsOf(config_, rank); }

absl::StatusOr<std::unique_ptr<TrainingRun>> TrainingRun::Prepare(const v1::Config& config, Device& device,
                                                                  const Clock& clock, MetricsSink& metrics) {
  ZF_ASSIGN_OR_RETURN(ModelSpec spec, ModelSpec::Create(config.model()));
  std::unique_ptr<TrainingRun> run(new TrainingRun(config, std::move(spec), device, clock, metrics));
  ZeroOptions options = run->Options(/*rank=*/0);
  ZF_ASSIGN_OR_RETURN(run->model_, Model::Create(config.model(), options.dtype, device,
                                                 config.batch().micro_sequences(), config.model().context()));
  ZF_ASSIGN_OR_RETURN(run->feed_, DataFeed::Open(config));
  ZF_ASSIGN_OR_RETURN(run->stream_, device.CreateStream());
  ZeroLayout layout(run->spec_, options);
  run->digests_ = {.config = Digest128(config.SerializeAsString()),
                   .layout = Digest128(layout.Describe(run->spec_)),
                   .schedule = Digest128(DescribeSchedule(StepSchedule(*run->model_, layout))),
                   .parameters = run->spec_.parameters()};
  return run;
}

absl::Status TrainingRun::Join(std::unique_ptr<Communicator> communicator, uint64_t generation) {
  generation_ = generation;
  communicator_ = std::move(communicator);
  communicator_->SetObserver(
      [this](const CollectiveRecord& record) { ObserveCollective(*communicator_, record, metrics_); });
  layout_ = std::make_unique<ZeroLayout>(spec_, Options(communicator_->rank()));
  int64_t tokens = config_.batch().micro_sequences() * config_.model().context();
  MemoryPlan plan = PlanMemory(*model_, *layout_, tokens);
  ZF_ASSIGN_OR_RETURN(device_arena_, Arena::Create(plan, Space::kDevice, device_));
  ZF_ASSIGN_OR_RETURN(host_arena_, Arena::Create(plan, Space::kHost, device_));
  engine_ = std::make_unique<ZeroEngine>(
      EngineParts{spec_, *layout_, *model_, device_, *stream_, *device_arena_, *host_arena_, *communicator_},
      config_.optimizer());
  checkpointer_ = std::make_unique<Checkpointer>(*layout_, engine_->state(), device_, *stream_, *host_arena_, clock_);
  feed_->Attach(communicator_->rank(), device_, *stream_, device_arena_->TakeAs<int32_t>(kTokensRow),
                host_arena_->TakeAs<int32_t>(kTokenStagingRow));
  return absl::OkStatus();
}

absl::Status TrainingRun::Load(const std::string& step_dir) {
  ZF_ASSIGN_OR_RETURN(v1::CheckpointManifest manifest, ReadManifest(step_dir));
  ZF_RETURN_IF_ERROR(CheckSameModel(manifest, config_.model(), step_dir));
  const AdamWState& vectors = engine_->state().vectors();
  const std::array<float*, 3> targets = {vectors.master, vectors.exp_avg, vectors.exp_avg_sq};
  ZF_RETURN_IF_ERROR(LoadRanges(step_dir, manifest, StoredPlaces(spec_, manifest, engine_->state().RangesToLoad()),
                                [&](int vector, int64_t offset, std::span<const float> values) {
                                  device_.Copy(*stream_, targets[vector] + offset, values.data(),
                                               static_cast<int64_t>(values.size_bytes()));
                                  return stream_->Synchronize();
                                }));
  loaded_samples_ = manifest.data_cursor().samples_consumed();
  loaded_control_ = ControlOf(manifest);
  return absl::OkStatus();
}

// The counts of a checkpoint of another precision are kept; the loss scale then starts anew.
StepControl TrainingRun::ControlOf(const v1::CheckpointManifest& manifest) const {
  StepControl control;
  control.skipped = manifest.loss_scale().skipped_steps();
  control.updates = manifest.step() - control.skipped;
  if (layout_->options().dtype != DType::kF16) return control;
  const bool scaled = manifest.config().precision() == config_.precision() && manifest.loss_scale().scale() >= 1;
  control.loss_scale = scaled ? manifest.loss_scale().scale() : kFirstLossScale;
  if (scaled) control.clean_steps = manifest.loss_scale().clean_steps();
  return control;
}

absl::Status TrainingRun::Start(bool loaded, int64_t step) {
  ZF_RETURN_IF_ERROR(MeasurePeak(/*rounds=*/0));
  feed_->Seek(step, loaded ? loaded_samples_ : 0);
  ZF_RETURN_IF_ERROR(loaded ? engine_->PublishLoadedState(loaded_control_) : engine_->Initialize(config_.seed()));
  return WarmUp(step);
}

// A GPU loads code when it is first used, which can deadlock during a collective (ZeroEngine::WarmUp). The memory that
// this takes of the device's memory shows in its figures from the start.
absl::Status TrainingRun::WarmUp(int64_t step) {
  if (device_.host_addressable()) return absl::OkStatus();
  const StepInput input{.step = step + 1,
                        .learning_rate = config_.optimizer().learning_rate(),
                        .tokens = config_.batch().global_sequences() * config_.model().context()};
  const bool evaluates = feed_->has_validation() && config_.evaluate().every_steps() > 0;
  ZF_RETURN_IF_ERROR(engine_->WarmUp(
      input, [&](int64_t micro) { return feed_->TrainingBatch(step + 1, micro); }, evaluates ? 1 : 0,
      [&](int64_t pass) { return feed_->Evaluation(pass); }));
  memory_asked_at_ = 0;
  ExportDeviceMemory();
  return absl::OkStatus();
}

// The datasheet's peak if there is one. Otherwise all ranks measure at the same time, so that they share the machine as
// they will in training.
absl::Status TrainingRun::MeasurePeak(int rounds) {
  const DType dtype = layout_->options().dtype;
  const double datasheet = device_.datasheet_flops(dtype);
  if (datasheet > 0) {
    my_peak_ = datasheet;
  } else if (rounds > 0) {
    my_peak_ = std::max(my_peak_, device_.ops().MeasureGemmPeak(dtype, rounds));
  } else {
    constexpr int kRounds = 3;
    my_peak_ = PeakMeter::BestOfSeries([&] { return device_.ops().MeasureGemmPeak(dtype, kRounds); });
  }
  ZF_ASSIGN_OR_RETURN(std::vector<double> all, engine_->GatherFromRanks(my_peak_));
  peak_.Offer(std::accumulate(all.begin(), all.end(), 0.0), datasheet > 0);
  return absl::OkStatus();
}

// Between steps, at numbers on which all ranks agree; an asynchronous device is not measured again.
absl::Status TrainingRun::MeasurePeakAgain() {
  constexpr int kRounds = 2;
  if (!device_.host_addressable() || !PeakMeter::MeasuresAfter(steps_done_)) return absl::OkStatus();
  return MeasurePeak(kRounds);
}

absl::Status TrainingRun::Launch(int64_t step, bool stop) {
  ZF_RETURN_IF_ERROR(MeasurePeakAgain());
  launches_.push_back(
      {clock_.MonotonicSeconds(), LearningRate(config_.optimizer(), config_.schedule(), config_.steps(), step)});
  StepInput input{.step = step,
                  .learning_rate = launches_.back().learning_rate,
                  .tokens = config_.batch().global_sequences() * config_.model().context(),
                  .flags = stop ? kStopFlag : 0};
  return engine_->Launch(input, [&](int64_t micro) { return feed_->TrainingBatch(step, micro); });
}

absl::StatusOr<TrainingRun::StepOutcome> TrainingRun::Collect() {
  ZF_ASSIGN_OR_RETURN(StepResult result, engine_->Collect());
  const LaunchedStep launched = launches_.front();
  launches_.pop_front();
  // A step begins when it is launched, or when the one before it is done.
  double now = clock_.MonotonicSeconds();
  double seconds = std::max(now - std::max(launched.at, collected_at_), 1e-9);
  collected_at_ = now;
  int64_t tokens = config_.batch().global_sequences() * config_.model().context();
  StepOutcome outcome;
  outcome.stop = (result.flags & kStopFlag) != 0;
  v1::StepEvent& event = outcome.event;
  event.set_step(result.step);
  event.set_loss(result.loss);
  event.set_grad_norm(result.grad_norm);
  event.set_learning_rate(launched.learning_rate);
  event.set_tokens(tokens);
  event.set_seconds(seconds);
  event.set_tokens_per_second(static_cast<double>(tokens) / seconds);
  ++steps_done_;
  event.set_mfu(peak_.Utilization(result.step, spec_.FlopsPerToken() * event.tokens_per_second(), &outcome.peak_note));
  event.set_generation(generation_);
  ExportFigures(outcome, result);
  return outcome;
}

void TrainingRun::ExportFigures(const StepOutcome& outcome, const StepResult& result) {
  const PhaseSeconds& phases = result.phases;
  const v1::StepEvent& event = outcome.event;
  metrics_.StepDone({.step = event.step(),
                     .loss = event.loss(),
                     .grad_norm = event.grad_norm(),
                     .learning_rate = event.learning_rate(),
                     .tokens = event.tokens() / config_.parallel().workers(),
                     .mfu = event.mfu()});
  metrics_.PhaseDone(StepPhase::kForward, phases.forward);
  metrics_.PhaseDone(StepPhase::kBackward, phases.backward);
  metrics_.PhaseDone(StepPhase::kReduce, phases.reduce);
  metrics_.PhaseDone(StepPhase::kOptimizer, phases.optimizer);
  metrics_.PhaseDone(StepPhase::kGather, phases.gather);
  metrics_.PhaseDone(StepPhase::kData, phases.data);
  metrics_.SetLossScale(result.loss_scale);
  if (result.skipped) metrics_.StepSkipped();
  ExportMemory(Space::kDevice, device_arena_->figures(), metrics_);
  ExportMemory(Space::kHost, host_arena_->figures(), metrics_);
  ExportDeviceMemory();
}

// At most once a second: it takes the driver's locks, between two launches.
void TrainingRun::ExportDeviceMemory() {
  const double now = clock_.MonotonicSeconds();
  if (memory_asked_at_ != 0 && now - memory_asked_at_ < 1) return;
  memory_asked_at_ = now;
  if (std::optional<DeviceMemory> memory = device_.memory(); memory.has_value()) {
    metrics_.SetDeviceMemory(memory->total_bytes, memory->used_bytes,
                             memory->used_bytes - device_arena_->figures().reserved);
  }
}

bool TrainingRun::EvaluatesAfter(int64_t step) const {
  int64_t every = config_.evaluate().every_steps();
  return feed_->has_validation() && every > 0 && (step % every == 0 || step == config_.steps());
}

absl::StatusOr<v1::EvaluateEvent> TrainingRun::Evaluate(int64_t step) {
  ZF_ASSIGN_OR_RETURN(double loss_sum, engine_->EvaluateLossSum(feed_->EvaluationPasses(),
                                                                [&](int64_t pass) { return feed_->Evaluation(pass); }));
  v1::EvaluateEvent event;
  event.set_step(step);
  event.set_loss(loss_sum / static_cast<double>(feed_->EvaluationTokens()));
  return event;
}

absl::Status TrainingRun::Save(int64_t step, std::function<void(v1::ShardWritten)> written) {
  const std::string partial_dir = PartialDirectory(StepDirectory(config_.checkpoint().dir(), step), generation_);
  if (checkpointer_->MustReserve()) ZF_RETURN_IF_ERROR(engine_->Finish());
  ZF_ASSIGN_OR_RETURN(double stall, checkpointer_->Save(partial_dir, Manifest(step), std::move(written)));
  metrics_.PhaseDone(StepPhase::kCheckpoint, stall);
  return absl::OkStatus();
}

v1::CheckpointManifest TrainingRun::Manifest(int64_t step) const {
  v1::CheckpointManifest manifest;
  manifest.set_format_version(kManifestFormatVersion);
  manifest.set_step(step);
  manifest.set_generation(generation_);
  *manifest.mutable_config() = config_;
  SetTensorTable(spec_, &manifest);
  manifest.mutable_data_cursor()->set_samples_consumed(feed_->SamplesConsumed(step));
  const StepControl& control = engine_->control();
  manifest.mutable_loss_scale()->set_scale(control.loss_scale);
  manifest.mutable_loss_scale()->set_clean_steps(control.clean_steps);
  manifest.mutable_loss_scale()->set_skipped_steps(control.skipped);
  manifest.mutable_random()->set_seed(config_.seed());
  manifest.set_world_size(config_.parallel().workers());
  manifest.set_zero_stage(config_.parallel().zero_stage());
  return manifest;
}

v1::RankReport TrainingRun::Report() const {
  return BuildRankReport(rank(), *device_arena_, *host_arena_, *communicator_);
}

}  // namespace zerofleet
