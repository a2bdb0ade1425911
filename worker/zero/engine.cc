// The step; see engine.h. A stage changes nothing here: its row decides inside gather, reduce and layout.
#include "worker/zero/engine.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/zero/memory_plan.h"
#include "worker/zero/norm.h"

namespace zerofleet {

ZeroEngine::ZeroEngine(const EngineParts& parts, const v1::OptimizerConfig& optimizer)
    : parts_(parts), optimizer_(optimizer), state_(parts.spec, parts.layout, parts.arena),
      gatherer_(parts.layout, parts.arena, parts.communicator, parts.clock),
      reducer_(parts.layout, parts.arena, parts.communicator, parts.device.ops(), parts.clock),
      scratch_(parts.arena.Take(kModelScratchRow)), scalar_(parts.arena.TakeAs<double>(kScalarsRow)) {
  parts_.model.SetMemory({parts_.arena.Take(kActivationsRow), scratch_});
}

absl::Status ZeroEngine::Initialize(uint64_t seed) {
  state_.Initialize(seed, parts_.device.ops(), parts_.stream);
  if (parts_.layout.stage().gather == ParameterGather::kAfterUpdate) return MakeWholeParameters(seed);
  NarrowMasterToParameters();
  return parts_.stream.Synchronize();
}

// Every rank makes the whole model from the seed, a piece of scratch at a time, so that nothing need travel.
absl::Status ZeroEngine::MakeWholeParameters(uint64_t seed) {
  int64_t most = parts_.model.ScratchBytes() / static_cast<int64_t>(sizeof(float));
  float* piece = static_cast<float*>(scratch_);
  for (int u = 0; u < parts_.layout.units(); ++u) {
    const UnitExtent& unit = parts_.layout.partition().unit(u);
    for (int64_t begin = unit.flat_begin; begin < unit.flat_end; begin += most) {
      int64_t end = std::min(begin + most, unit.flat_end);
      state_.FillInitial(begin, end, seed, parts_.device.ops(), parts_.stream, piece);
      parts_.device.ops().Convert(parts_.stream, end - begin, {piece, DType::kF32},
                                  gatherer_.resting().Offset(parts_.layout.UnitOffset(u) + begin - unit.flat_begin));
    }
  }
  return parts_.stream.Synchronize();
}

absl::Status ZeroEngine::PublishLoadedState() {
  NarrowMasterToParameters();
  ZF_RETURN_IF_ERROR(parts_.stream.Synchronize());
  gatherer_.PublishUpdate();
  return gatherer_.Finish();
}

absl::StatusOr<StepResult> ZeroEngine::Train(const StepInput& input, const MicroBatchSource& batches) {
  StepResult result;
  PhaseSeconds& phases = result.phases;

  // Forward and backward of every micro-batch; units are gathered before their use, gradients leave behind it.
  StepScalars mine{.flags = input.flags};
  ZF_ASSIGN_OR_RETURN(mine.loss_sum, RunMicroBatches(input, batches, phases));

  // Every gradient reduced and at rest with its owner.
  double start = parts_.clock.MonotonicSeconds();
  ZF_RETURN_IF_ERROR(reducer_.Finish(parts_.stream));
  ZF_ASSIGN_OR_RETURN(mine.squared_norm, OwnedSquaredNorm(parts_.layout, reducer_.resting(), parts_.device.ops(),
                                                          parts_.stream, parts_.device, scalar_));
  ZF_ASSIGN_OR_RETURN(StepScalars total, SumOverRanks(mine, parts_.communicator));
  result.loss = total.loss_sum / static_cast<double>(input.tokens);
  result.grad_norm = std::sqrt(total.squared_norm);
  result.flags = total.flags;
  double reduced = parts_.clock.MonotonicSeconds();
  reducer_.TakeWaitSeconds();  // of Finish: within this phase already
  phases.reduce += reduced - start;
  if (!std::isfinite(result.grad_norm) || !std::isfinite(result.loss)) {
    return absl::FailedPreconditionError(absl::StrCat("step ", input.step, ": loss ", result.loss, ", gradient norm ",
                                                      result.grad_norm, ": training has diverged; a lower ",
                                                      "optimizer.learning_rate or longer schedule.warmup_steps may help"));
  }

  // The owners update their parts; where parameters rest whole, the parts are then gathered.
  Update(input, ClipCoefficient(result.grad_norm, optimizer_.grad_clip()));
  ZF_RETURN_IF_ERROR(parts_.stream.Synchronize());
  gatherer_.PublishUpdate();
  phases.optimizer = parts_.clock.MonotonicSeconds() - reduced;
  return result;
}

absl::StatusOr<double> ZeroEngine::RunMicroBatches(const StepInput& input, const MicroBatchSource& batches,
                                                   PhaseSeconds& phases) {
  const Clock& clock = parts_.clock;
  float gradient_scale = static_cast<float>(1.0 / static_cast<double>(input.tokens));
  std::vector<int> uses = UsedUnits(parts_.model.TrainingEvents());
  double loss_sum = 0;
  for (int64_t micro = 0; micro < parts_.layout.options().micro_batches; ++micro) {
    double start = clock.MonotonicSeconds();
    ZF_ASSIGN_OR_RETURN(MicroBatch batch, batches(micro));
    double loaded = clock.MonotonicSeconds(), turned = loaded;
    double gathering = 0;  // forward's share of the waits
    reducer_.BeginMicroBatch(micro);
    gatherer_.Begin(uses);
    ZF_RETURN_IF_ERROR(parts_.model.Train(batch, gradient_scale, *this, parts_.stream, scalar_, [&] {
      turned = clock.MonotonicSeconds();
      gathering = gatherer_.TakeWaitSeconds();
    }));
    ZF_ASSIGN_OR_RETURN(double loss, ReadLoss());
    double gathering_again = gatherer_.TakeWaitSeconds(), reducing = reducer_.TakeWaitSeconds();
    loss_sum += loss;
    phases.data += loaded - start;
    phases.forward += turned - loaded - gathering;
    phases.backward += clock.MonotonicSeconds() - turned - gathering_again - reducing;
    phases.gather += gathering + gathering_again;
    phases.reduce += reducing;
  }
  return loss_sum;
}

absl::StatusOr<double> ZeroEngine::ReadLoss() {
  double loss = 0;
  parts_.device.Copy(parts_.stream, &loss, scalar_, sizeof loss);
  ZF_RETURN_IF_ERROR(parts_.stream.Synchronize());
  return loss;
}

void ZeroEngine::Update(const StepInput& input, double clip) {
  for (int u = 0; u < parts_.layout.units(); ++u) {
    ZeroLayout::Piece piece = parts_.layout.Updated(u);
    UpdateAdamW(parts_.device.ops(), parts_.stream, optimizer_, state_.Segments(u), input.step, input.learning_rate, clip,
                reducer_.resting().Offset(piece.gradient_offset), state_.At(piece.state_offset),
                gatherer_.resting().Offset(piece.parameter_offset));
  }
}

void ZeroEngine::NarrowMasterToParameters() {
  for (int u = 0; u < parts_.layout.units(); ++u) {
    ZeroLayout::Piece piece = parts_.layout.Updated(u);
    parts_.device.ops().Convert(parts_.stream, piece.elements(), {state_.At(piece.state_offset).master, DType::kF32},
                                gatherer_.resting().Offset(piece.parameter_offset));
  }
}

absl::StatusOr<double> ZeroEngine::EvaluateLossSum(int64_t passes, const EvaluationSource& batches) {
  std::vector<int> uses = UsedUnits(parts_.model.EvaluationEvents());
  StepScalars mine;
  for (int64_t pass = 0; pass < passes; ++pass) {
    ZF_ASSIGN_OR_RETURN(EvaluationBatch one, batches(pass));
    gatherer_.Begin(uses);
    ZF_RETURN_IF_ERROR(parts_.model.Evaluate(one.batch, *this, parts_.stream, scalar_));
    ZF_ASSIGN_OR_RETURN(double loss, ReadLoss());
    if (one.counts) mine.loss_sum += loss;
  }
  ZF_ASSIGN_OR_RETURN(StepScalars total, SumOverRanks(mine, parts_.communicator));
  return total.loss_sum;
}

}  // namespace zerofleet
