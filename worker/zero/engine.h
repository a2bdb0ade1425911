// One optimizer step under ZeRO, in the order of the paper (§5): gather, forward, backward, reduce, update, publish.
#ifndef ZEROFLEET_WORKER_ZERO_ENGINE_H_
#define ZEROFLEET_WORKER_ZERO_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "worker/collective/communicator.h"
#include "worker/device/device.h"
#include "worker/memory/arena.h"
#include "worker/model/model.h"
#include "worker/model/spec.h"
#include "worker/zero/gather.h"
#include "worker/zero/layout.h"
#include "worker/zero/reduce.h"
#include "worker/zero/shard.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet {

// What an engine works with; borrowed, and longer lived than the engine.
struct EngineParts {
  const ModelSpec& spec;
  const ZeroLayout& layout;
  Model& model;
  Device& device;
  Stream& stream;
  Arena& arena;               // of PlanMemory's device rows
  Communicator& communicator;  // the data group
  const Clock& clock;
};

struct StepInput {
  int64_t step;          // 1-based
  double learning_rate;
  int64_t tokens;        // of the global batch
  uint64_t flags = 0;    // or-ed over the ranks into StepResult::flags
};

// Seconds of a step by phase, as the metrics name them; waits are counted in the phase waited for.
struct PhaseSeconds {
  double forward = 0, backward = 0, reduce = 0, optimizer = 0, gather = 0, data = 0;
};

struct StepResult {
  double loss = 0;       // mean cross-entropy per token over the global batch, nats
  double grad_norm = 0;  // global L2 norm before clipping
  uint64_t flags = 0;
  PhaseSeconds phases;
};

// Fills the device's token buffers (MicroBatch::inputs, targets) with micro-batch i and returns its shape.
using MicroBatchSource = std::function<absl::StatusOr<MicroBatch>(int64_t micro_batch)>;

struct EvaluationBatch {
  MicroBatch batch;
  bool counts;  // false: run only so that every rank makes the same passes
};
using EvaluationSource = std::function<absl::StatusOr<EvaluationBatch>(int64_t pass)>;

class ZeroEngine : private ParameterSource {
 public:
  ZeroEngine(const EngineParts& parts, const v1::OptimizerConfig& optimizer);

  TrainingState& state() { return state_; }

  // Fresh weights from the seed, or after the state was loaded: makes the parameters from the master weights.
  absl::Status Initialize(uint64_t seed);
  absl::Status PublishLoadedState();

  // FailedPrecondition when the gradient is not finite; the state is then as before the step.
  absl::StatusOr<StepResult> Train(const StepInput& input, const MicroBatchSource& batches);

  // Waits for what the last step has posted.
  absl::Status Finish() { return gatherer_.Finish(); }

  // Sum of the loss over this rank's batches that count, and over ranks; every rank runs the same number of passes.
  absl::StatusOr<double> EvaluateLossSum(int64_t passes, const EvaluationSource& batches);

 private:
  absl::StatusOr<Tensor> Acquire(int unit) override { return gatherer_.Acquire(unit); }
  void Release(int unit) override { gatherer_.Release(unit); }
  absl::StatusOr<float*> Gradient(int unit) override { return reducer_.Gradient(unit, parts_.stream); }
  absl::Status DeliverGradient(int unit) override { return reducer_.Deliver(unit, parts_.stream); }

  absl::StatusOr<double> RunMicroBatches(const StepInput& input, const MicroBatchSource& batches, PhaseSeconds& phases);
  absl::StatusOr<double> ReadLoss();
  void Update(const StepInput& input, double clip);
  void NarrowMasterToParameters();
  absl::Status MakeWholeParameters(uint64_t seed);

  const EngineParts parts_;
  const v1::OptimizerConfig optimizer_;
  TrainingState state_;
  ParameterGatherer gatherer_;
  GradientReducer reducer_;
  void* scratch_;   // the model's, free between passes
  double* scalar_;  // device memory for one loss or norm
};

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_ZERO_ENGINE_H_
