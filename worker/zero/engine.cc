// The step; see engine.h. Nothing here depends on the stage: its row decides inside gather, reduce and layout.
#include "worker/zero/engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/optim/loss_scaling.h"
#include "worker/optim/step_rule.h"
#include "worker/zero/divergence.h"
#include "worker/zero/gather.h"
#include "worker/zero/memory_plan.h"
#include "worker/zero/reduce.h"
#include "worker/zero/step_guard.h"
#include "worker/zero/step_sums.h"
#include "worker/zero/tensor_group.h"
#include "worker/zero/updater.h"
#include "worker/zero/updater_factory.h"

namespace zerofleet::zero {

ZeroEngine::ZeroEngine(const EngineParts& parts, const v1::OptimizerConfig& optimizer)
    : parts_(parts),
      optimizer_(optimizer),
      loss_scaling_(optim::LossScalingOf(parts.layout.options().dtype)),
      marks_(parts.stream),
      gatherer_(std::make_unique<ParameterGatherer>(parts_, marks_)),
      reducer_(std::make_unique<GradientReducer>(
          parts_, marks_,
          GradientReducer::Callbacks{
              .reducing =
                  [this](int unit, device::Tensor shard, const collective::Communicator::Pending& reduced) {
                    updater_->ExpectGradient(unit, shard, reduced);
                  },
              .at_rest = [this](int unit, device::Tensor shard) { return GradientAtRest(unit, shard); }})),
      tensor_group_(parts.tensor == nullptr ? nullptr
                                            : std::make_unique<CommunicatorTensorGroup>(*parts.tensor, marks_)),
      updater_(CreateUpdater({parts.spec, parts.layout, parts.device, parts.stream, parts.device_arena,
                              parts.host_arena, parts.scratch, &parts.communicator, parts.tensor})),
      finished_units_(parts.layout.units()),
      scratch_(parts.device_arena.Take(kModelScratchRow)),
      sums_(std::make_unique<StepSums>(parts_, tensor_group_.get())),
      control_(parts.device_arena.TakeAs<device::StepControl>(kControlRow)),
      results_(parts.host_arena.TakeAs<device::StepControl>(kResultsRow)),
      guard_(std::make_unique<StepGuard>(parts_, *updater_, sums_->losses(), sums_->room())) {
  const bool on_host = parts_.model.HostActivationBytes() > 0;
  const bool in_bands = parts_.layout.gradients_in_bands();
  parts_.model.SetMemory({.activations = parts_.device_arena.Take(kActivationsRow),
                          .scratch = scratch_,
                          .host_activations = on_host ? parts_.host_arena.Take(kActivationsRow) : nullptr,
                          .band = in_bands ? parts_.device_arena.TakeAs<float>(kGradientBandRow) : nullptr});
  const model::ModelPart& part = parts_.layout.part();
  ZF_CHECK((parts_.tensor == nullptr ? 1 : parts_.tensor->size()) == part.count);
  if (parts_.tensor != nullptr) ZF_CHECK(parts_.tensor->rank() == part.index);
  parts_.model.SetTensorGroup(tensor_group_.get());
  if (parts_.layout.options().histograms) histograms_.emplace(parts_);
}

ZeroEngine::~ZeroEngine() = default;

TrainingState& ZeroEngine::state() { return updater_->state(); }
void ZeroEngine::Release(int unit) { gatherer_->Release(unit); }
absl::StatusOr<float*> ZeroEngine::Gradient(int unit) { return reducer_->Gradient(unit); }
absl::StatusOr<device::Tensor> ZeroEngine::WrittenGradient(int unit) { return reducer_->WrittenGradient(unit); }

absl::Status ZeroEngine::Initialize(uint64_t seed) {
  device::StepControl control;
  control.loss_scale = loss_scaling_.first;
  ZF_RETURN_IF_ERROR(SetControl(control));
  ZF_RETURN_IF_ERROR(updater_->Initialize(seed));
  MakeRestingParameters(seed);
  return parts_.stream.Synchronize();
}

absl::Status ZeroEngine::PublishLoadedState(const device::StepControl& control) {
  ZF_RETURN_IF_ERROR(SetControl(control));
  return Publish(/*vector=*/0);
}

absl::Status ZeroEngine::PublishAverage() {
  ZF_CHECK(launched_.empty() && parts_.layout.optimizer().averages());
  ZF_RETURN_IF_ERROR(Finish());
  return Publish(parts_.layout.optimizer().vectors.size() - 1);
}

absl::Status ZeroEngine::PublishWeights() {
  ZF_CHECK(launched_.empty());
  ZF_RETURN_IF_ERROR(Finish());
  return Publish(/*vector=*/0);
}

absl::Status ZeroEngine::Publish(size_t vector) {
  ZF_RETURN_IF_ERROR(updater_->Publish(gatherer_->resting(), vector));
  ZF_RETURN_IF_ERROR(parts_.stream.Synchronize());
  for (int u = 0; u < parts_.layout.units(); ++u) gatherer_->PublishUnit(u);
  return Finish();
}

absl::Status ZeroEngine::GatherLoadedState() {
  ZF_RETURN_IF_ERROR(parts_.stream.Synchronize());
  const coordinator::PartitionMap& units = parts_.layout.partition();
  for (const device::Tensor& vector : state().vectors()) {
    for (int u = 0; u < parts_.layout.units(); ++u) {
      if (parts_.layout.frozen(u)) continue;
      const device::Tensor whole = vector.Offset(parts_.layout.TrainedUnitOffset(u));
      ZF_RETURN_IF_ERROR(
          parts_.communicator.AllGather({}, whole, units.PaddedElements(u), units.unit(u).name, parts_.stream.Record())
              .Wait());
    }
  }
  return absl::OkStatus();
}

absl::Status ZeroEngine::TakeFrozen(int64_t offset, std::span<const float> values) {
  const auto most = static_cast<size_t>(parts_.model.ScratchBytes()) / sizeof(float);
  while (!values.empty()) {
    const std::span<const float> piece = values.first(std::min(values.size(), most));
    const auto count = static_cast<int64_t>(piece.size());
    parts_.device.Copy(parts_.stream, scratch_, piece.data(), static_cast<int64_t>(piece.size_bytes()));
    parts_.ops().Convert(parts_.stream, count, {scratch_, device::DType::kF32}, gatherer_->resting().Offset(offset));
    ZF_RETURN_IF_ERROR(parts_.stream.Synchronize());
    values = values.subspan(piece.size());
    offset += count;
  }
  return absl::OkStatus();
}

// Waits first, so that nothing still being published of an older state overwrites the next one.
absl::Status ZeroEngine::SetControl(const device::StepControl& control) {
  ZF_CHECK(launched_.empty());
  ZF_RETURN_IF_ERROR(Finish());
  results_[last_slot_] = control;
  next_scale_ = control.loss_scale;
  parts_.device.Copy(parts_.stream, control_, &results_[last_slot_], sizeof control);
  return parts_.stream.Synchronize();
}

// Every rank makes all of its resting parameters from the seed, in pieces that fit in scratch: no peer need send those
// that the rank does not update.
void ZeroEngine::MakeRestingParameters(uint64_t seed) {
  int64_t most = parts_.model.ScratchBytes() / static_cast<int64_t>(sizeof(float));
  float* values = static_cast<float*>(scratch_);
  for (int u = 0; u < parts_.layout.units(); ++u) {
    coordinator::PlacedRange rest = parts_.layout.RestingParameters(u);
    for (int64_t begin = rest.flat_begin; begin < rest.flat_end; begin += most) {
      int64_t end = std::min(begin + most, rest.flat_end);
      state().FillInitial(begin, end, seed, parts_.ops(), parts_.stream, values);
      parts_.ops().Convert(parts_.stream, end - begin, {values, device::DType::kF32},
                           gatherer_->resting().Offset(rest.offset + begin - rest.flat_begin));
    }
  }
}

device::LinkTraffic ZeroEngine::link() const {
  device::LinkTraffic all = updater_->link();
  all += gatherer_->link();
  all += parts_.model.link();
  return all;
}

absl::Status ZeroEngine::WarmUp(const StepInput& input, const MicroBatchSource& batches, int64_t passes,
                                const EvaluationSource& evaluation) {
  // The state's parameters may still be on their way to other ranks.
  ZF_RETURN_IF_ERROR(Finish());
  SetWarmingUp(true);
  const absl::Status status = RunWithoutUpdate(input, batches, passes, evaluation);
  SetWarmingUp(false);
  return status;
}

void ZeroEngine::SetWarmingUp(bool warming_up) {
  parts_.communicator.SetWarmingUp(warming_up);
  if (parts_.tensor != nullptr) parts_.tensor->SetWarmingUp(warming_up);
}

absl::Status ZeroEngine::RunWithoutUpdate(const StepInput& input, const MicroBatchSource& batches, int64_t passes,
                                          const EvaluationSource& evaluation) {
  const device::StepControl kept = control();
  SetBatch(input.batch);
  parts_.ops().BeginStep(parts_.stream, DivisorOf(input), control_);
  ZF_RETURN_IF_ERROR(RunMicroBatches(batches));
  ZF_RETURN_IF_ERROR(FinishGradients(input.step));
  ZF_RETURN_IF_ERROR(sums_->Decide(batch_, input.flags, RuleOf(input), control_).status());
  // The update runs and is told to do nothing.
  device::StepControl nothing = kept;
  nothing.apply = 0;
  ZF_RETURN_IF_ERROR(SetControl(nothing));
  updater_->SetLearningRate(input.learning_rate);
  ZF_RETURN_IF_ERROR(UpdateAndPublish(/*delayed=*/false));
  if (passes > 0) ZF_RETURN_IF_ERROR(EvaluateLossSum(passes, evaluation).status());
  return SetControl(kept);
}

absl::Status ZeroEngine::Launch(const StepInput& input, const MicroBatchSource& batches) {
  ZF_RETURN_IF_ERROR(BeginStep(input, batches));
  // Forward and backward of every micro-batch: units are gathered before their use, and gradients reduced behind it.
  ZF_RETURN_IF_ERROR(RunMicroBatches(batches));
  // Every gradient is at rest with its owner; every rank decides alike, before anything changes.
  ZF_RETURN_IF_ERROR(FinishGradients(input.step));
  ZF_ASSIGN_OR_RETURN(collective::Communicator::Pending scalars,
                      sums_->Decide(batch_, input.flags, RuleOf(input), control_));
  // The owners update their shards; where parameters rest whole, the shards are then gathered.
  updater_->SetLearningRate(input.learning_rate);
  ZF_RETURN_IF_ERROR(UpdateAndPublish(input.delayed));
  return KeepResult(input, std::move(scalars));
}

absl::StatusOr<StepResult> ZeroEngine::Collect() {
  ZF_CHECK(!launched_.empty());
  LaunchedStep launched = std::move(launched_.front());
  launched_.pop_front();
  // The step's last collective except the publishing ones; when it is complete, so are all before it.
  ZF_RETURN_IF_ERROR(launched.scalars.Wait());
  ZF_RETURN_IF_ERROR(launched.end->Wait());
  // With nothing launched, the caller may read the state next.
  if (launched_.empty()) {
    ZF_RETURN_IF_ERROR(FinishUnits(parts_.layout.units()));
    ZF_RETURN_IF_ERROR(updater_->AwaitUpdate());
  }
  ZF_RETURN_IF_ERROR(parts_.stream.failure());
  const device::StepControl& control = results_[launched.slot];
  const double scale = std::exchange(next_scale_, control.loss_scale);  // `control` has the scale of the next step
  if (control.apply == 0 && !(loss_scaling_.dynamic && scale > 1)) {
    v1::Divergence divergence;
    divergence.set_step(launched.step);
    divergence.set_cause(absl::StrCat("loss ", control.loss, ", gradient norm ", control.grad_norm));
    return DivergenceError(divergence);
  }
  return StepResult{.step = launched.step,
                    .loss = control.loss,
                    .grad_norm = control.grad_norm,
                    .flags = control.flags,
                    .skipped = control.apply == 0,
                    .loss_scale = control.loss_scale,
                    .phases = SumPhases(launched.marks, *launched.end),
                    .spans = launched.traced_since == nullptr
                                 ? std::vector<PhaseSpan>()
                                 : SpansOf(launched.marks, *launched.end, *launched.traced_since)};
}

const device::StepControl& ZeroEngine::control() const {
  ZF_CHECK(launched_.empty());
  return results_[last_slot_];
}

absl::Status ZeroEngine::Finish() {
  ZF_RETURN_IF_ERROR(FinishUnits(parts_.layout.units()));
  ZF_RETURN_IF_ERROR(gatherer_->Finish());
  return parts_.stream.Synchronize();
}

absl::Status ZeroEngine::BeginStep(const StepInput& input, const MicroBatchSource& batches) {
  ZF_CHECK(launched() < kMostLaunchedSteps);
  marks_.Take();  // drops marks made since the last step
  SetBatch(input.batch);
  ZF_CHECK(!input.histograms || histograms_);
  if (input.histograms) histograms_->Begin();
  marks_.Mark(StepPhase::kData);
  parts_.ops().BeginStep(parts_.stream, DivisorOf(input), control_);
  return guard_->Before(input.checks, control_, RuleOf(input),
                        [&](int number) { return RunMicroBatch(number, /*micro=*/0, batches); });
}

void ZeroEngine::SetBatch(const StepBatch& batch) {
  batch_ = batch.micro_batches > 0 ? batch : parts_.layout.most_batch();
  reducer_->SetBatch(batch_);
}

absl::Status ZeroEngine::RunMicroBatches(const MicroBatchSource& batches) {
  for (int64_t micro = 0; micro < batch_.micro_batches; ++micro) {
    const auto run = [&] { return RunMicroBatch(parts_.communicator.rank(), micro, batches); };
    ZF_RETURN_IF_ERROR(micro == 0 ? guard_->RunFirst(run) : run());
  }
  return absl::OkStatus();
}

absl::Status ZeroEngine::FinishGradients(int64_t step) {
  marks_.Mark(StepPhase::kReduce);
  ZF_RETURN_IF_ERROR(guard_->Observe(step, gatherer_->resting()));
  ZF_RETURN_IF_ERROR(reducer_->Finish());
  return guard_->Verdict(step);
}

absl::Status ZeroEngine::KeepResult(const StepInput& input, collective::Communicator::Pending scalars) {
  last_slot_ = (last_slot_ + 1) % kMostLaunchedSteps;
  parts_.device.Copy(parts_.stream, &results_[last_slot_], control_, sizeof(device::StepControl));
  launched_.push_back(
      {input.step, last_slot_, std::move(scalars), marks_.Take(), parts_.stream.RecordTime(), input.traced_since});
  return parts_.stream.failure();
}

absl::Status ZeroEngine::RunMicroBatch(int number, int64_t micro, const MicroBatchSource& batches) {
  marks_.Mark(StepPhase::kData);
  ZF_ASSIGN_OR_RETURN(model::MicroBatch batch, batches(number, micro));
  batch.weight = sums_->weights() + micro;
  batch.first = number == 0 && micro == 0;
  marks_.Mark(StepPhase::kForward);
  reducer_->BeginMicroBatch(micro);
  gatherer_->Begin(parts_.model.uses().training);
  return parts_.model.Train(batch, &control_->gradient_scale, *this, parts_.stream, sums_->losses() + micro,
                            [this] { marks_.Mark(StepPhase::kBackward); });
}

absl::Status ZeroEngine::DeliverGradient(int unit) {
  const int64_t elements = parts_.layout.partition().unit(unit).elements();
  const device::Tensor gradient = reducer_->Made(unit);
  ZeroHeld(unit, 0, elements, gradient);
  ZF_ASSIGN_OR_RETURN(const bool counts, guard_->Delivers(elements, gradient));
  return counts ? reducer_->Deliver(unit) : absl::OkStatus();
}

absl::Status ZeroEngine::DeliverBand(int unit, int64_t begin, int64_t count, device::Tensor values) {
  ZeroHeld(unit, begin, count, values);
  ZF_ASSIGN_OR_RETURN(const bool counts, guard_->Delivers(count, values));
  return counts ? reducer_->DeliverBand(unit, begin, count, values) : absl::OkStatus();
}

void ZeroEngine::ZeroHeld(int unit, int64_t begin, int64_t count, device::Tensor gradient) {
  for (const ZeroLayout::HeldRange& held : parts_.layout.Held(unit)) {
    const int64_t from = std::max(begin, held.begin), to = std::min(begin + count, held.begin + held.elements);
    if (from >= to) continue;
    parts_.ops().Zero(parts_.stream, gradient.Offset(from - begin).data, (to - from) * DTypeBytes(gradient.dtype));
  }
}

device::StepRule ZeroEngine::RuleOf(const StepInput& input) const {
  device::StepRule rule =
      optim::StepRuleOf(optimizer_, static_cast<double>(input.tokens), input.learning_rate, loss_scaling_);
  rule.ema_decay = input.ema_decay;
  rule.ema_start = input.ema_start;
  rule.looks_ahead = input.delayed && input.looks_ahead;
  return rule;
}

absl::StatusOr<std::vector<TensorSpreads>> ZeroEngine::TakeHistograms() {
  ZF_CHECK(launched_.empty() && histograms_ && histograms_->drawing());
  ZF_RETURN_IF_ERROR(Finish());
  ZF_RETURN_IF_ERROR(histograms_->AddWeights(state()));
  return histograms_->Sum();
}

absl::Status ZeroEngine::GradientAtRest(int unit, device::Tensor shard) {
  if (histograms_ && histograms_->drawing()) {
    ZF_RETURN_IF_ERROR(histograms_->AddGradient(unit, shard, &control_->loss_scale));
  }
  sums_->AddSquares(unit, shard);
  return updater_->TakeGradient(unit, shard);
}

absl::Status ZeroEngine::UpdateAndPublish(bool delayed) {
  marks_.Mark(StepPhase::kOptimizer);
  ZF_RETURN_IF_ERROR(FinishUnits(parts_.layout.units()));
  ZF_RETURN_IF_ERROR(updater_->Update(control_, reducer_->resting(), gatherer_->resting(), delayed));
  finished_units_ = 0;
  return updater_->updates_behind() ? absl::OkStatus() : FinishUnits(parts_.layout.units());
}

// No pass has come between the last step and this update, so its parameters may still be on their way to other ranks.
absl::Status ZeroEngine::Flush() {
  ZF_CHECK(launched_.empty());
  ZF_RETURN_IF_ERROR(FinishUnits(parts_.layout.units()));
  if (parts_.layout.delays()) ZF_RETURN_IF_ERROR(gatherer_->Finish());
  ZF_ASSIGN_OR_RETURN(const bool held, updater_->Flush(gatherer_->resting()));
  if (held) finished_units_ = 0;
  return FinishUnits(parts_.layout.units());
}

// Finishes and publishes the units before `end`, in the order in which a forward pass needs them, the same on every
// rank.
absl::Status ZeroEngine::FinishUnits(int end) {
  for (; finished_units_ < end; ++finished_units_) {
    ZF_RETURN_IF_ERROR(updater_->FinishUnit(finished_units_));
    gatherer_->PublishUnit(finished_units_);
  }
  return absl::OkStatus();
}

// A use also gathers the unit of the next use. That is the unit behind it, unless a script says otherwise, or adapters,
// whose units come behind all others, are used between blocks.
absl::StatusOr<device::Tensor> ZeroEngine::Acquire(int unit) {
  const bool in_order = !parts_.layout.scripted() && parts_.layout.passed_units() == parts_.layout.units();
  const int end = in_order ? std::min(unit + 2, parts_.layout.units()) : parts_.layout.units();
  if (finished_units_ < end) {
    PhaseMarks::Within wait(marks_, StepPhase::kOptimizer);
    ZF_RETURN_IF_ERROR(FinishUnits(end));
  }
  return gatherer_->Acquire(unit);
}

absl::StatusOr<double> ZeroEngine::EvaluateLossSum(int64_t passes, const EvaluationSource& batches, double* weight) {
  const std::vector<int>& uses = parts_.model.uses().evaluation;
  std::vector<double> losses, weights;
  for (int64_t pass = 0; pass < passes; ++pass) {
    ZF_ASSIGN_OR_RETURN(EvaluationBatch one, batches(pass));
    one.batch.weight = sums_->weights();
    gatherer_->Begin(uses);
    ZF_RETURN_IF_ERROR(parts_.model.Evaluate(one.batch, *this, parts_.stream, sums_->losses()));
    double loss = 0;
    parts_.device.Copy(parts_.stream, &loss, sums_->losses(), sizeof loss);
    ZF_RETURN_IF_ERROR(parts_.stream.Synchronize());
    if (one.counts) losses.push_back(loss);
    if (weight == nullptr) continue;
    double divisor = 0;
    parts_.device.Copy(parts_.stream, &divisor, sums_->weights(), sizeof divisor);
    ZF_RETURN_IF_ERROR(parts_.stream.Synchronize());
    if (one.counts) weights.push_back(divisor);
  }
  if (weight != nullptr) {
    ZF_ASSIGN_OR_RETURN(*weight, sums_->SumLosses(weights));
  }
  return sums_->SumLosses(losses);
}

absl::StatusOr<std::vector<double>> ZeroEngine::GatherFromRanks(double mine) { return sums_->GatherFromRanks(mine); }

}  // namespace zerofleet::zero
