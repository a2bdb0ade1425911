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
  void* memory;      // Model::CacheBytes(capacity)
  int64_t capacity;  // tokens, at most ModelRun::time
  int64_t past;      // tokens that it holds; a pass adds its own behind them
};

// One micro-batch on the device: inputs and targets are (sequences, time) int32. A target of -1 does not count.
struct MicroBatch {
  int64_t sequences, time;
  const int32_t* inputs;
  const int32_t* targets;
  // For Evaluate and Logits of one sequence: its tokens follow those in the cache. Null: they begin it, and are not
  // kept.
  const KeyValueCache* cache = nullptr;
  // (sequences, time): the position in its sequence at which each token's document starts, where attention and
  // positions are to stay within documents; null: a sequence is one.
  const int32_t* starts = nullptr;
  // A foreign model (foreign.h) has neither inputs nor targets, but these: the samples in their set, by number; whether
  // that is the set of validation; the position of the first in the order of the whole run, which random numbers are
  // drawn from; and where to put, in device memory, what the loss is divided by.
  std::span<const int64_t> samples = {};
  bool validation = false;
  uint64_t position = 0;
  double* weight = nullptr;

  int64_t past() const { return cache == nullptr ? 0 : cache->past; }
};

// Device memory a model works in; borrowed.
struct ModelMemory {
  void* activations;                 // kept from forward to backward
  void* scratch;                     // free between calls
  void* host_activations = nullptr;  // of the host, pinned on a GPU: kept from forward to backward, too
  float* band = nullptr;             // where a ParameterSource takes gradients in bands: the one at hand
};

// A training pass in phases, in their order: the forward, then the backward of each of `units`, the last one first.
inline constexpr int kForwardPhase = 0;
inline int BackwardPhase(int unit, int units) { return units - unit; }

// The units that one pass asks its ParameterSource for, in order.
struct UnitUses {
  std::vector<int> training, evaluation;
};

// How a model is run; the same on every rank.
struct ModelRun {
  device::DType dtype = device::DType::kBF16;  // of parameters and activations
  int64_t sequences = 1, time = 1;             // the most that a micro-batch has
  Checkpointing checkpointing = {};
  Sharing sharing = {};
  device::LossTerms terms = {};     // of training; an evaluation's loss has none
  ForeignPasses* passes = nullptr;  // of a foreign model; borrowed
};

class Model {
 public:
  // By the family's row (families.cc). Memory must be set before the first pass. Which part of a shared model it is,
  // its tensor group says, which must be set before it too. Errors also from CheckSequences.
  static absl::StatusOr<std::unique_ptr<Model>> Create(const v1::ModelConfig& config, const ModelRun& run,
                                                       device::Device& device);
  virtual ~Model() = default;

  virtual int64_t ActivationBytes() const = 0;
  virtual int64_t HostActivationBytes() const = 0;
  virtual int64_t ScratchBytes() const = 0;
  // What the first and the third of these consist of, and the phases in which a training pass uses it.
  virtual std::vector<memory::Piece> ActivationPieces() const = 0;
  virtual std::vector<memory::Piece> ScratchPieces() const = 0;
  virtual int64_t BandBytes() const = 0;
  // What keys and values of as many tokens take; 0 for a model that keeps none.
  virtual int64_t CacheBytes(int64_t capacity) const = 0;
  // What the backward computes again, in FLOPs counted as ModelSpec::FlopsPerToken counts them, and no part of those.
  virtual double RecomputedFlopsPerToken() const = 0;
  void SetMemory(const ModelMemory& memory) { memory_ = memory; }
  // Activations copied to the host and back, since the tensor group was set.
  virtual device::LinkTraffic link() const = 0;
  // The ranks that have the other parts; borrowed until the next call. None where there is one part.
  virtual void SetTensorGroup(TensorGroup* group) = 0;

  // The units' uses in a training micro-batch and in an evaluation: known beforehand, from a dry run.
  const UnitUses& uses() const { return uses_; }

  // Forward, loss and backward. *loss_sum (device) = sum over tokens of cross-entropy in nats; gradients are of
  // loss_sum * *gradient_scale (device). `on_backward` is called when the forward pass is over.
  virtual absl::Status Train(const MicroBatch& batch, const float* gradient_scale, ParameterSource& parameters,
                             device::Stream& stream, double* loss_sum, const std::function<void()>& on_backward) = 0;
  // Forward and loss only.
  virtual absl::Status Evaluate(const MicroBatch& batch, ParameterSource& parameters, device::Stream& stream,
                                double* loss_sum) = 0;
  // logits(V) fp32 or bf16, of the position after the last of one sequence; batch.targets is not read. Of a whole model
  // only.
  virtual absl::Status Logits(const MicroBatch& batch, ParameterSource& parameters, device::Stream& stream,
                              device::Tensor logits) = 0;

 protected:
  ModelMemory memory_{};

 private:
  UnitUses uses_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_MODEL_H_
