// A model whose passes this program does not compute: a PyTorch module, behind the same interface as a Transformer.
//
// Its units and tensors are data in the configuration (proto/zerofleet/v1/foreign.proto). Its passes are computed by a
// ForeignPasses, which the Python package implements (python/src/); on a device without memory, where there is none, a
// pass performs the script alone. The model keeps no activations in this program's memory, so nothing shares memory
// with them. The divisor of its loss is known only when a pass is over (MicroBatch::weight).
//
// Buffers that passes change, such as BatchNorm's running statistics, are tensors of a unit of their own, an element
// for each byte: every type's values are then exact in every compute type, and in sums of one contribution and zeros.
// All micro-batches of a step begin with the same values, and what the step's first one leaves (MicroBatch::first) are
// the next step's, whatever the number of ranks. The partition, checkpoints and recovery know nothing of it.
#ifndef ZEROFLEET_WORKER_MODEL_FOREIGN_H_
#define ZEROFLEET_WORKER_MODEL_FOREIGN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/model/model.h"
#include "worker/model/script.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::model {

inline bool IsForeign(const v1::ModelConfig& config) { return !config.torch().empty(); }

// Why weights of `stored` cannot be used as those of `model`, in words such as "tensor head.weight is [5, 3] there and
// [7, 3] here"; empty if both have the same tensors in the same order, and train the same ones. Scripts and decay may
// differ.
std::string DifferenceOf(const v1::ForeignModel& stored, const v1::ForeignModel& model);
// Whether the model has buffers that passes change, as tensors of its own.
bool AssignsBuffers(const v1::ForeignModel& model);
// Freezes in `model` what is frozen in `other`, and nothing else.
void FreezeAs(const v1::ForeignModel& other, v1::ForeignModel& model);

// Name and value of something that a pass's bits depend on, such as a library and its version.
using NamedFact = std::pair<std::string, std::string>;

// A micro-batch, and the stream in whose order its pass reads and writes device memory. Gradients are those of the loss
// itself: modules are not trained in fp16, so there is no loss scale.
struct ForeignBatch {
  const MicroBatch& batch;
  device::Stream& stream;
};

struct ForeignLoss {
  double sum = 0, weight = 0;
  // If set, both numbers in device memory instead, in the stream's order; they stay there until the next pass.
  const double* on_device = nullptr;
};

// Computes the passes of a module; called from the worker's thread. Errors are the module's.
class ForeignPasses {
 public:
  virtual ~ForeignPasses() = default;

  // Makes the module of this configuration ready to run on `device`. InvalidArgument if the module differs from the
  // recorded one or cannot run there.
  virtual absl::Status Prepare(const v1::Config& config, const device::Device& device) = 0;
  // Further facts on which all workers must agree; call after Prepare.
  virtual std::vector<NamedFact> Facts() { return {}; }
  // Limits the device memory that passes take beside the engine's, where they can be limited. Called for each view.
  virtual absl::Status LimitMemory(int64_t /*bytes*/) { return absl::OkStatus(); }
  // Runs the forward, calls `on_backward`, and runs the backward, which adds every gradient to ScriptedPass::Gradient.
  virtual absl::StatusOr<ForeignLoss> Train(const ForeignBatch& batch, ScriptedPass& units,
                                            const std::function<void()>& on_backward) = 0;
  virtual absl::StatusOr<ForeignLoss> Evaluate(const ForeignBatch& batch, ScriptedPass& units) = 0;
};

class ForeignModel : public Model {
 public:
  // `passes` is borrowed. If it is null, passes can be run only on a device without memory. Errors also from ScriptOf.
  static absl::StatusOr<std::unique_ptr<ForeignModel>> Create(const v1::ModelConfig& config, ForeignPasses* passes,
                                                              device::Device& device);

  int64_t ActivationBytes() const override { return 0; }
  int64_t HostActivationBytes() const override { return 0; }
  int64_t ScratchBytes() const override;  // used for initial values only
  std::vector<memory::Piece> ActivationPieces() const override { return {}; }
  std::vector<memory::Piece> ScratchPieces() const override { return {}; }
  int64_t BandBytes() const override { return 0; }
  int64_t CacheBytes(int64_t /*capacity*/) const override { return 0; }
  double RecomputedFlopsPerToken() const override { return 0; }
  device::LinkTraffic link() const override { return {}; }
  void SetTensorGroup(TensorGroup* group) override;
  absl::Status LimitOwnMemory(int64_t bytes) override;
  absl::Status Train(const MicroBatch& batch, const float* gradient_scale, ParameterSource& parameters,
                     device::Stream& stream, double* loss_sum, const std::function<void()>& on_backward) override;
  absl::Status Evaluate(const MicroBatch& batch, ParameterSource& parameters, device::Stream& stream,
                        double* loss_sum) override;
  absl::Status Logits(const MicroBatch& batch, ParameterSource& parameters, device::Stream& stream,
                      device::Tensor logits) override;

  const PassScript& script() const { return script_; }

 private:
  ForeignModel(PassScript script, std::vector<std::string> units, ForeignPasses* passes, device::Device& device)
      : script_(std::move(script)), units_(std::move(units)), passes_(passes), device_(device) {}

  // Whether the device has no memory: a pass performs the script alone.
  bool dry() const { return device_.kind() == "dry"; }
  absl::Status CheckCanRun() const;
  // Puts a pass's loss where the engine wants it, in the stream's order.
  void Store(const ForeignLoss& loss, device::Stream& stream, double* loss_sum, double* weight) const;

  const PassScript script_;
  const std::vector<std::string> units_;  // unit names
  ForeignPasses* const passes_;
  device::Device& device_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_FOREIGN_H_
