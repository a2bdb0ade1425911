// One optimizer step under ZeRO, in the order of the paper (§5): gather, forward, backward, reduce, update, publish.
//
// Launch enqueues a step and Collect waits for its numbers. Between the two the host need not wait for the device:
// clipping, loss scaling and the decision to skip are computed there (step_control.h), so the next step may be
// launched before this one's loss is read. On the CPU a launched step has run.
#ifndef ZEROFLEET_WORKER_ZERO_ENGINE_H_
#define ZEROFLEET_WORKER_ZERO_ENGINE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/link_traffic.h"
#include "worker/device/step_control.h"
#include "worker/model/model.h"
#include "worker/zero/engine_parts.h"
#include "worker/zero/histograms.h"
#include "worker/zero/integrity.h"
#include "worker/zero/phases.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::zero {

class CommunicatorTensorGroup;
class GradientReducer;
class ParameterGatherer;
class StepGuard;
class TrainingState;
class StepSums;
class Updater;

struct StepInput {
  int64_t step;  // 1-based
  double learning_rate;
  int64_t tokens;      // tokens of the global batch whose targets count; 0 for a foreign model, whose passes report it
  uint64_t flags = 0;  // or-ed over the ranks into StepResult::flags
  StepChecks checks = {};
  bool delayed = false;      // the update is applied by the next delayed step, or by Flush
  bool looks_ahead = false;  // the delayed update also leaves the parameters ahead of the weights (UpdateFactors)
  // If not null, the result has spans, in seconds since this event.
  std::shared_ptr<device::Event> traced_since = nullptr;
  StepBatch batch = {};  // 0 micro-batches: the layout's largest batch
  double ema_decay = 0;  // for the average of the weights, where the optimizer's row has one
  int64_t ema_start = 0;
  bool histograms = false;  // TakeHistograms will return this step's; only where ZeroOptions::histograms is set
};

struct StepResult {
  int64_t step = 0;
  double loss = 0;       // mean cross-entropy per token that counts over the global batch, nats
  double grad_norm = 0;  // global L2 norm before clipping; not finite in a skipped step
  uint64_t flags = 0;
  bool skipped = false;   // fp16: the gradient overflowed, and the state is as before
  double loss_scale = 1;  // the next step's scale
  PhaseSeconds phases;
  std::vector<PhaseSpan> spans;  // `phases` are their sums; empty unless StepInput::traced_since was given
};

// Fills the device's token buffers (MicroBatch::inputs, targets) with micro-batch i of the rank with this number in the
// group, and returns its shape.
using MicroBatchSource = std::function<absl::StatusOr<model::MicroBatch>(int number, int64_t micro_batch)>;

struct EvaluationBatch {
  model::MicroBatch batch;
  bool counts;  // false: run only so that every rank makes the same passes
};
using EvaluationSource = std::function<absl::StatusOr<EvaluationBatch>(int64_t pass)>;

class ZeroEngine : private model::ParameterSource {
 public:
  ZeroEngine(const EngineParts& parts, const v1::OptimizerConfig& optimizer);
  ~ZeroEngine() override;

  TrainingState& state();

  // Makes fresh weights from the seed.
  absl::Status Initialize(uint64_t seed);
  // Makes the parameters from the master weights, after the state was loaded.
  absl::Status PublishLoadedState(const device::StepControl& control);
  // Called on every rank after a step with StepInput::histograms was collected, before another is launched.
  absl::StatusOr<std::vector<TensorSpreads>> TakeHistograms();
  // Called between steps, all of which were collected. PublishAverage makes the parameters from the average of the
  // weights, for evaluations; PublishWeights makes them from the weights again. No update may be held back (Flush).
  absl::Status PublishAverage();
  absl::Status PublishWeights();
  // Called before PublishLoadedState where every rank has loaded only what it stores and the stage keeps more: gathers
  // the rest from the ranks that own it.
  absl::Status GatherLoadedState();
  // Called before PublishLoadedState: stores `values` as this rank's resting parameters of frozen units, from `offset`
  // on (ZeroLayout::RestingParameters). Initialize makes all of them from the seed.
  absl::Status TakeFrozen(int64_t offset, std::span<const float> values);

  // Runs a step, and with `passes` an evaluation, that changes nothing: every op runs once with no collective in
  // flight, and every collective with no op behind it. A GPU's driver loads a kernel at its first launch and may wait
  // for the device to be idle then: beside a collective that waits for another rank, for ever. Called before the first
  // step; its traffic is not counted.
  absl::Status WarmUp(const StepInput& input, const MicroBatchSource& batches, int64_t passes,
                      const EvaluationSource& evaluation);

  // At most kMostLaunchedSteps may be launched and not collected. Returns Aborted on every rank, with the verdict
  // (DisagreementOf), where ranks disagree in what the step checks; the state is then as before the step.
  absl::Status Launch(const StepInput& input, const MicroBatchSource& batches);
  int launched() const { return static_cast<int>(launched_.size()); }
  // The result of the oldest step launched. FailedPrecondition (DivergenceOf) when its loss or gradient was not finite
  // and no smaller loss scale is left to try; that step has not changed the state.
  absl::StatusOr<StepResult> Collect();

  // Traffic between the device's memory and the host's; not thread-safe.
  device::LinkTraffic link() const;

  // Applies the update that a delayed step has held back. Called on every rank alike, with nothing launched.
  absl::Status Flush();

  // What the last collected step leaves to the next: loss scale and counts. Nothing may be launched.
  const device::StepControl& control() const;

  // Waits for what the last step has posted.
  absl::Status Finish();

  // The sum of the loss over the batches that count, of all ranks; every rank runs the same number of passes. `weight`,
  // if given, becomes the sum of the divisors of those losses, which only a foreign model's passes report.
  absl::StatusOr<double> EvaluateLossSum(int64_t passes, const EvaluationSource& batches, double* weight = nullptr);
  // Every rank's `mine`, indexed by rank of the view.
  absl::StatusOr<std::vector<double>> GatherFromRanks(double mine);

 private:
  struct LaunchedStep {
    int64_t step;
    int slot;  // index into results_
    collective::Communicator::Pending scalars;
    std::vector<PhaseMark> marks;
    std::shared_ptr<device::Event> end, traced_since;
  };

  absl::StatusOr<device::Tensor> Acquire(int unit) override;
  void Release(int unit) override;
  bool Trains(int unit) const override { return !parts_.layout.frozen(unit); }
  absl::StatusOr<float*> Gradient(int unit) override;
  absl::StatusOr<device::Tensor> WrittenGradient(int unit) override;
  absl::Status DeliverGradient(int unit) override;
  bool TakesBands() const override { return parts_.layout.gradients_in_bands(); }
  absl::Status DeliverBand(int unit, int64_t begin, int64_t count, device::Tensor values) override;

  absl::Status SetControl(const device::StepControl& control);
  absl::Status RunWithoutUpdate(const StepInput& input, const MicroBatchSource& batches, int64_t passes,
                                const EvaluationSource& evaluation);
  void SetBatch(const StepBatch& batch);
  absl::Status Publish(size_t vector);
  absl::Status BeginStep(const StepInput& input, const MicroBatchSource& batches);
  absl::Status RunMicroBatches(const MicroBatchSource& batches);
  absl::Status RunMicroBatch(int number, int64_t micro, const MicroBatchSource& batches);
  absl::Status FinishGradients(int64_t step);
  absl::Status KeepResult(const StepInput& input, collective::Communicator::Pending scalars);
  device::StepRule RuleOf(const StepInput& input) const;
  // The divisor of the gradients that is known before the step's passes.
  static double DivisorOf(const StepInput& input) { return input.tokens > 0 ? static_cast<double>(input.tokens) : 1; }
  absl::Status GradientAtRest(int unit, device::Tensor shard);
  absl::Status UpdateAndPublish(bool delayed);
  absl::Status FinishUnits(int end);
  // Elements [begin, begin + count) of a unit's gradient: zeroes those of the unit's frozen tensors.
  void ZeroHeld(int unit, int64_t begin, int64_t count, device::Tensor gradient);
  void SetWarmingUp(bool warming_up);
  void MakeRestingParameters(uint64_t seed);

  const EngineParts parts_;
  const v1::OptimizerConfig optimizer_;
  const device::LossScaling& loss_scaling_;
  PhaseMarks marks_;
  const std::unique_ptr<ParameterGatherer> gatherer_;
  const std::unique_ptr<GradientReducer> reducer_;
  const std::unique_ptr<CommunicatorTensorGroup> tensor_group_;  // null: the model is whole
  const std::unique_ptr<Updater> updater_;
  StepBatch batch_;                       // the step in progress's
  std::optional<Histograms> histograms_;  // where the layout says that steps may be drawn
  int finished_units_;  // units that the updater has finished in the last update, and that are published
  void* scratch_;       // the model's, free between passes
  const std::unique_ptr<StepSums> sums_;
  device::StepControl* control_;  // device memory
  device::StepControl* results_;  // host memory: kMostLaunchedSteps copies of control_, taken in turn
  int last_slot_ = 0;
  double next_scale_ = 1;  // the loss scale that the next step to be collected begins with
  const std::unique_ptr<StepGuard> guard_;
  std::deque<LaunchedStep> launched_;
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_ENGINE_H_
