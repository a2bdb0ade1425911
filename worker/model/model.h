// A transformer with explicit forward and backward over borrowed parameters.
//
// The model owns no memory: activations and scratch are given to it (sizes from ActivationBytes and ScratchBytes), and
// parameters come unit by unit from a ParameterSource. transformer.h runs a family's rows; families.h lists them.
#ifndef ZEROFLEET_WORKER_MODEL_MODEL_H_
#define ZEROFLEET_WORKER_MODEL_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/device.h"
#include "worker/device/link_traffic.h"
#include "worker/device/ops.h"
#include "worker/memory/placement.h"
#include "worker/model/checkpointing.h"
#include "worker/model/parameter_source.h"
#include "worker/model/spec.h"
#include "worker/model/tensor_group.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::model {

class ForeignPasses;  // foreign.h

// Keys and values of one sequence's earlier tokens, in device memory.
struct KeyValueCache {
  void* memory;      // Model::CacheBytes(capacity) bytes
  int64_t capacity;  // tokens, at most ModelRun::time
  int64_t past;      // tokens held; a pass adds its own behind them
};

// One micro-batch on the device: inputs and targets are (sequences, time) int32. A target of -1 does not count.
struct MicroBatch {
  int64_t sequences, time;
  const int32_t* inputs;
  const int32_t* targets;
  // For Evaluate and Logits on one sequence: its tokens follow those in the cache. Null: they begin the sequence, and
  // their keys and values are not kept.
  const KeyValueCache* cache = nullptr;
  // (sequences, time): the position in its sequence at which each token's document starts, where attention and
  // positions stay within documents; null: each sequence is one document.
  const int32_t* starts = nullptr;
  // For a foreign model (foreign.h), in place of inputs and targets: the samples, by their number in their set; whether
  // that is the validation set; the first sample's position in the order of the whole run, from which random numbers
  // are drawn; and where in device memory to put the divisor of the loss.
  std::span<const int64_t> samples = {};
  bool validation = false;
  uint64_t position = 0;
  double* weight = nullptr;
  bool first = false;  // the global batch's first samples: the pass delivers what it makes of the module's buffers

  int64_t past() const { return cache == nullptr ? 0 : cache->past; }
};

// The memory that a model works in; borrowed.
struct ModelMemory {
  void* activations;                 // kept from forward to backward
  void* scratch;                     // free between calls
  void* host_activations = nullptr;  // host memory, pinned on a GPU; kept from forward to backward too
  float* band = nullptr;             // holds the current band, where a ParameterSource takes gradients in bands
};

// The phases of a training pass, in order: the forward, then the backward of each of the `units` units, the last unit
// first.
inline constexpr int kForwardPhase = 0;
inline int BackwardPhase(int unit, int units) { return units - unit; }

// The units that one pass asks its ParameterSource for, in order.
struct UnitUses {
  std::vector<int> training, evaluation;
};

// How a model is run; the same on every rank.
struct ModelRun {
  device::DType dtype = device::DType::kBF16;  // type of parameters and activations
  int64_t sequences = 1, time = 1;             // the most that a micro-batch has
  Checkpointing checkpointing = {};
  Sharing sharing = {};
  device::LossTerms terms = {};     // of the training loss; an evaluation's has none
  ForeignPasses* passes = nullptr;  // a foreign model's; borrowed
};

class Model {
 public:
  // Makes a model from its family's row (families.cc). Memory must be set before the first pass, and so must the tensor
  // group of a shared model, which says which part this one is. Errors also from CheckSequences.
  static absl::StatusOr<std::unique_ptr<Model>> Create(const v1::ModelConfig& config, const ModelRun& run,
                                                       device::Device& device);
  virtual ~Model() = default;

  virtual int64_t ActivationBytes() const = 0;
  virtual int64_t HostActivationBytes() const = 0;
  virtual int64_t ScratchBytes() const = 0;
  // The pieces of ActivationBytes and of ScratchBytes, and the phases in which a training pass uses them.
  virtual std::vector<memory::Piece> ActivationPieces() const = 0;
  virtual std::vector<memory::Piece> ScratchPieces() const = 0;
  virtual int64_t BandBytes() const = 0;
  // Bytes that the keys and values of `capacity` tokens take; 0 for a model that keeps none.
  virtual int64_t CacheBytes(int64_t capacity) const = 0;
  // FLOPs per token that the backward computes again, counted as ModelSpec::FlopsPerToken counts, which excludes them.
  virtual double RecomputedFlopsPerToken() const = 0;
  void SetMemory(const ModelMemory& memory) { memory_ = memory; }
  // Traffic of activations to the host and back since the tensor group was set.
  virtual device::LinkTraffic link() const = 0;
  // Sets the group of ranks that have the other parts; borrowed until the next call. Null where there is one part.
  virtual void SetTensorGroup(TensorGroup* group) = 0;
  // Limits the device memory that the model itself allocates beside ModelMemory; only a foreign model does.
  virtual absl::Status LimitOwnMemory(int64_t /*bytes*/) { return absl::OkStatus(); }

  // The units that a training micro-batch and an evaluation use; known beforehand, from a dry run.
  const UnitUses& uses() const { return uses_; }

  // Forward, loss and backward. *loss_sum (device) = sum over tokens of cross-entropy in nats. Gradients are those of
  // loss_sum * *gradient_scale (device). `on_backward` is called when the forward pass is over.
  virtual absl::Status Train(const MicroBatch& batch, const float* gradient_scale, ParameterSource& parameters,
                             device::Stream& stream, double* loss_sum, const std::function<void()>& on_backward) = 0;
  // Forward and loss only.
  virtual absl::Status Evaluate(const MicroBatch& batch, ParameterSource& parameters, device::Stream& stream,
                                double* loss_sum) = 0;
  // logits(V), fp32 or bf16, for the position after the last token of one sequence; batch.targets is not read. Only for
  // a whole model.
  virtual absl::Status Logits(const MicroBatch& batch, ParameterSource& parameters, device::Stream& stream,
                              device::Tensor logits) = 0;

 protected:
  ModelMemory memory_{};

 private:
  UnitUses uses_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_MODEL_H_
