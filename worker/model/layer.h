// A row of a block at work: what it declares, and its part of a forward and a backward pass.
//
// A layer's constructor takes its row and declares its tensors, activations and costs (declaration.h), so that table
// and passes cannot disagree. It has no state beyond where these are. A branch runs its layers in order, each on what
// the one before it has put out; its backward runs them in reverse, each on the gradient that the one behind it
// returns. To add a kind of row: a struct in rows.h, a file in layers/, a line in block.cc.
#ifndef ZEROFLEET_WORKER_MODEL_LAYER_H_
#define ZEROFLEET_WORKER_MODEL_LAYER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "worker/device/ops.h"
#include "worker/model/activations.h"
#include "worker/model/model.h"
#include "worker/model/residual_stream.h"
#include "worker/model/scratch.h"
#include "worker/model/unit_gradient.h"

namespace zerofleet::model {

// A pass over one micro-batch; borrows everything.
struct Pass {
  device::Ops& ops;
  const MicroBatch& batch;
  const ResidualStream& residual;
  const ActivationMemory& activations;
  const Scratch& scratch;
  const BandMemory& bands;
  device::Stream& stream;

  int64_t m() const { return batch.sequences * batch.time; }
  // The residual stream's gradient of all tokens. In scratch.narrow where ranks have but some.
  absl::StatusOr<device::Tensor> WholeGradient(const std::string& unit) const;
};

// A pass at one unit.
struct UnitPass {
  const Pass& pass;
  const std::string& unit;  // its name, for reports
  device::Tensor w;         // its tensors
  int64_t layer = 0;        // of a block
  // The residual stream's places in it: before each branch, and behind the last one.
  const std::vector<int>* middles = nullptr;
  device::Tensor adapters = {};             // of a block's adapters; null where it has none
  const UnitGradient* dadapters = nullptr;  // of a backward
  const UnitGradient* dw = nullptr;         // of a backward; null: the unit is frozen

  device::Tensor At(int row) const { return pass.activations.At(layer, row); }
  float* StatisticsAt(int row) const { return static_cast<float*>(At(row).data); }
  device::Tensor StreamBefore(int branch) const;
};

class Layer {
 public:
  virtual ~Layer() = default;

  // Which rows are its neighbours; null at the ends of a block. Once, before any pass.
  void SetNeighbours(const Layer* before, const Layer* behind) {
    before_ = before;
    behind_ = behind;
  }

  // Bytes of Scratch::attention that it needs for such micro-batches.
  virtual int64_t AttentionScratchBytes(device::Ops& /*ops*/, int64_t /*sequences*/, int64_t /*time*/) const {
    return 0;
  }

  // Elements of keys and values that it keeps of as many tokens; in a block, one layer keeps any.
  virtual int64_t CachedElements(int64_t /*capacity*/) const { return 0; }

  // Makes its output of what the layer before it has put out, or of the residual stream.
  virtual absl::Status Forward(const UnitPass& pass) const = 0;
  // Makes it once more, where it was not kept: layers that declare cheap activations.
  virtual absl::Status Again(const UnitPass& /*pass*/) const { return absl::OkStatus(); }
  // Adds its parameters' gradients to pass.dw, and returns the gradient of what it took; null where that was the
  // residual stream, whose gradient has been added to.
  virtual absl::StatusOr<device::Tensor> Backward(const UnitPass& pass, device::Tensor dy) const = 0;
  // Behind the backward of a unit: adds to pass.dw what a tensor group has summed in scratch, where it has.
  virtual absl::Status AddNormGradient(const UnitPass& /*pass*/) const { return absl::OkStatus(); }

  // --- What neighbours ask of it.

  virtual device::Tensor Output(const UnitPass& pass) const = 0;
  // The same, if the product before it can make it at once with its own; null otherwise.
  virtual device::Tensor MadeByProduct(const UnitPass& /*pass*/) const { return {}; }
  // Where the product behind it puts the gradient of its output; or, with `before`, of its input, which is that: the
  // product goes backward through both.
  struct GradientPlace {
    device::Tensor place, before;
  };
  virtual GradientPlace TakesGradient(const UnitPass& pass) const = 0;

 protected:
  const Layer* before() const { return before_; }
  const Layer* behind() const { return behind_; }

 private:
  const Layer *before_ = nullptr, *behind_ = nullptr;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_LAYER_H_
