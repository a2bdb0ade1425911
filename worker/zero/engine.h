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
  int64_t tokens;      // of the global batch, whose targets count; of a foreign model 0: its passes tell
  uint64_t flags = 0;  // or-ed over the ranks into StepResult::flags
  StepChecks checks = {};
  bool delayed = false;      // its update comes with the next delayed step, or with Flush
  bool looks_ahead = false;  // and then leaves the parameters ahead of the weights (device::UpdateFactors)
  // The result has spans since this event; null: none.
  std::shared_ptr<device::Event> traced_since = nullptr;
  StepBatch batch = {};  // without micro-batches: the layout's largest
  double ema_decay = 0;  // of the average of the weights, where the optimizer's row has one
  int64_t ema_start = 0;
  bool histograms = false;  // TakeHistograms has the step's
};

struct StepResult {
  int64_t step = 0;
  double loss = 0;       // mean cross-entropy per token that counts over the global batch, nats
  double grad_norm = 0;  // global L2 norm before clipping; not finite in a skipped step
  uint64_t flags = 0;
  bool skipped = false;   // fp16: the gradient overflowed, and the state is as before
  double loss_scale = 1;  // of the step after
  PhaseSeconds phases;
  std::vector<PhaseSpan> spans;  // of which `phases` are the sums, where StepInput asked for them
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

  // Fresh weights from the seed. Or, after the state was loaded: makes the parameters from the master weights.
  absl::Status Initialize(uint64_t seed);
  absl::Status PublishLoadedState(const device::StepControl& control);
  // Once a step that asked for them is collected, and nothing launched since: on every rank.
  absl::StatusOr<std::vector<TensorSpreads>> TakeHistograms();
  // Between steps, all of which were collected: makes the parameters from the average of the weights, for evaluations,
  // and from the weights again. Nothing may be held back (Flush).
  absl::Status PublishAverage();
  absl::Status PublishWeights();
  // Before PublishLoadedState, where every rank has loaded what it stores and the stage keeps more than that: the rest,
  // from the ranks that own it.
  absl::Status GatherLoadedState();
  // Before either: parameters that rest with this rank of units that are frozen, `values` for `offset` on
  // (ZeroLayout::RestingParameters). Without it they are Initialize's.
  absl::Status TakeFrozen(int64_t offset, std::span<const float> values);

  // A step, and with `passes` an evaluation, that changes nothing: every op runs once with no collective in flight, and
  // every collective with no op behind it. A GPU's driver loads a kernel at its first launch and may wait for the
  // device to be idle then: beside a collective that waits for another rank, for ever. Before the first step; not
  // counted as traffic.
  absl::Status WarmUp(const StepInput& input, const MicroBatchSource& batches, int64_t passes,
                      const EvaluationSource& evaluation);

  // At most kMostLaunchedSteps at a time. Aborted on every rank, with the verdict (DisagreementOf), where ranks
  // disagree in what the step checks: the state is as before the step.
  absl::Status Launch(const StepInput& input, const MicroBatchSource& batches);
  int launched() const { return static_cast<int>(launched_.size()); }
  // The result of the oldest step launched. FailedPrecondition (DivergenceOf) when its loss or gradient was not finite
  // and no smaller loss scale is left to try; that step has not changed the state.
  absl::StatusOr<StepResult> Collect();

  // Between the device's memory and the host's; not thread-safe.
  device::LinkTraffic link() const;

  // Updates what a delayed step has held back. With nothing launched; the same on every rank.
  absl::Status Flush();

  // What the last step collected leaves to the next: loss scale and counts. Nothing may be launched.
  const device::StepControl& control() const;

  // Waits for what the last step has posted.
  absl::Status Finish();

  // Sum of the loss over this rank's batches that count, and over ranks; every rank runs the same number of passes.
  // `weight`, if given, becomes the sum of what they are divided by, which only a foreign model's passes tell.
  absl::StatusOr<double> EvaluateLossSum(int64_t passes, const EvaluationSource& batches, double* weight = nullptr);
  // Each rank's number, by rank of the view.
  absl::StatusOr<std::vector<double>> GatherFromRanks(double mine);

 private:
  struct LaunchedStep {
    int64_t step;
    int slot;  // of results_
    collective::Communicator::Pending scalars;
    std::vector<PhaseMark> marks;
    std::shared_ptr<device::Event> end, traced_since;
  };

  absl::StatusOr<device::Tensor> Acquire(int unit) override;
  void Release(int unit) override;
  bool Trains(int unit) const override { return !parts_.layout.frozen(unit); }
  absl::StatusOr<float*> Gradient(int unit) override;
  absl::Status DeliverGradient(int unit) override;
  bool TakesBands() const override { return parts_.layout.gradients_in_bands(); }
  absl::Status DeliverBand(int unit, int64_t begin, int64_t count, const float* values) override;

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
  // What the gradients are divided by beforehand.
  static double DivisorOf(const StepInput& input) { return input.tokens > 0 ? static_cast<double>(input.tokens) : 1; }
  absl::Status GradientAtRest(int unit, device::Tensor shard);
  absl::Status UpdateAndPublish(bool delayed);
  absl::Status FinishUnits(int end);
  // Elements [begin, begin + count) of a unit's gradient: those of tensors that are frozen in it become 0.
  void ZeroHeld(int unit, int64_t begin, int64_t count, float* gradient);
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
  StepBatch batch_;                       // of the step in progress
  std::optional<Histograms> histograms_;  // of the last step that asked for them
  int finished_units_;                    // by the updater, of the last update, and published
  void* scratch_;                         // the model's, free between passes
  const std::unique_ptr<StepSums> sums_;
  device::StepControl* control_;  // device memory
  device::StepControl* results_;  // host memory: kMostLaunchedSteps copies of control_, taken in turn
  int last_slot_ = 0;
  const std::unique_ptr<StepGuard> guard_;
  std::deque<LaunchedStep> launched_;
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_ENGINE_H_
