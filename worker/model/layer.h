// A row of a block as code: what it declares, and its part of a forward and a backward pass.
//
// A layer's constructor takes its row and declares its tensors, activations and costs (declaration.h), so that table
// and passes cannot disagree. Its only state is where those are. A branch runs its layers in order, each on the output
// of the one before; its backward runs them in reverse, each on the gradient that the one behind it returns. To add a
// kind of row: a struct in rows.h, a file in layers/, a line in block.cc.
#ifndef ZEROFLEET_WORKER_MODEL_LAYER_H_
#define ZEROFLEET_WORKER_MODEL_LAYER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "worker/device/band_ops.h"
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
  const GradientMemory& gradients;
  device::Stream& stream;

  int64_t m() const { return batch.sequences * batch.time; }
  // The residual stream's gradient for all tokens; in scratch.narrow where each rank has only some of them.
  absl::StatusOr<device::Tensor> WholeGradient(const std::string& unit) const;
};

// A pass at one unit.
struct UnitPass {
  const Pass& pass;
  const std::string& unit;  // its name, for reports
  device::Tensor w;         // the unit's tensors
  int64_t layer = 0;        // the block's number
  // The activation rows that hold the residual stream before each branch but the first.
  const std::vector<int>* middles = nullptr;
  device::Tensor adapters = {};             // the tensors of a block's adapters; null where it has none
  const UnitGradient* dadapters = nullptr;  // in a backward only
  UnitGradient* dw = nullptr;               // in a backward only; null: the unit is frozen

  device::Tensor At(int row) const { return pass.activations.At(layer, row); }
  float* StatisticsAt(int row) const { return static_cast<float*>(At(row).data); }
  device::Tensor StreamBefore(int branch) const;
};

// Adds to a band of a gradient: to `rows.count` rows from `rows.first` on.
using AddToBand = std::function<void(const device::RowBand& rows, float* band)>;

// Delivers, in bands, the gradient of a matrix that has a row of `hidden` elements for each token of the vocabulary,
// and begins at the element `at` of the unit. Rows count from the first that this part of the model has.
absl::Status DeliverVocabularyInBands(const UnitPass& pass, int64_t vocab, int64_t hidden, int64_t at,
                                      const AddToBand& add);

class Layer {
 public:
  virtual ~Layer() = default;

  // Sets the layer's neighbours; null at the ends of a block. Called once, before any pass.
  void SetNeighbours(const Layer* before, const Layer* behind) {
    before_ = before;
    behind_ = behind;
  }

  // Bytes of Scratch::attention that it needs for micro-batches of this shape.
  virtual int64_t AttentionScratchBytes(device::Ops& /*ops*/, int64_t /*sequences*/, int64_t /*time*/) const {
    return 0;
  }

  // Elements of keys and values that it caches for `capacity` tokens; at most one layer of a block caches any.
  virtual int64_t CachedElements(int64_t /*capacity*/) const { return 0; }

  // Makes its output from that of the layer before it, or from the residual stream.
  virtual absl::Status Forward(const UnitPass& pass) const = 0;
  // Makes the output once more where it was not kept; for layers that declare cheap activations.
  virtual absl::Status Again(const UnitPass& /*pass*/) const { return absl::OkStatus(); }
  // Adds its parameters' gradients to pass.dw, and returns the gradient of its input; null where the input is the
  // residual stream, to whose gradient it then adds.
  virtual absl::StatusOr<device::Tensor> Backward(const UnitPass& pass, device::Tensor dy) const = 0;
  // Called after a unit's backward: adds to pass.dw what a tensor group has summed in scratch, if it sums this norm.
  virtual absl::Status AddNormGradient(const UnitPass& /*pass*/) const { return absl::OkStatus(); }

  // --- For neighbours.

  virtual device::Tensor Output(const UnitPass& pass) const = 0;
  // The output's place if the product before it can make this output in the same op; null otherwise.
  virtual device::Tensor MadeByProduct(const UnitPass& /*pass*/) const { return {}; }
  // Where the product behind it puts the gradient of this layer's output (`place`). If `before` is set, this layer's
  // output is a function of `before` alone, and the product goes backward through both and puts the gradient of
  // `before`.
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
