// A product with a block's weight, or with one part's share of it (Shoeybi et al. 2019): cut by rows of the weight, it
// puts out a part of the wide columns; cut by columns, it takes such a part and puts out a summand of the residual
// stream.
//
// Anything that changes every product of a model belongs here and nowhere else.
#ifndef ZEROFLEET_WORKER_MODEL_LINEAR_H_
#define ZEROFLEET_WORKER_MODEL_LINEAR_H_

#include <cstdint>
#include <utility>

#include "worker/model/declaration.h"
#include "worker/model/layer.h"
#include "worker/model/low_rank.h"

namespace zerofleet::model {

class Linear {
 public:
  // `product` has (n, k) of one part; `weight` and `bias` are offsets in the unit.
  Linear(const DeclaredProduct& product, int64_t weight, int64_t bias, LowRank adapters)
      : product_(product), weight_(weight), bias_(bias), adapters_(std::move(adapters)) {}

  int64_t n() const { return product_.n; }

  // y(M,N) = x(M,K) w^T + bias. With `activated`, also activated = GELU(y), by the same op.
  void Forward(const UnitPass& pass, device::Tensor x, device::Tensor y, device::Tensor activated) const;
  // sum = residual + the sum over the parts of (x w^T + bias), for the residual stream's tokens on this rank.
  absl::Status ForwardIntoStream(const UnitPass& pass, device::Tensor x, device::Tensor residual,
                                 device::Tensor sum) const;

  // Adds dy^T x to the weight's gradient and the sums of dy to the bias's, unless they are frozen.
  absl::Status BackwardWeight(const UnitPass& pass, device::Tensor dy, device::Tensor x) const;
  // Puts the gradient of x where `takes` says, and returns that place.
  device::Tensor BackwardInput(const UnitPass& pass, device::Tensor dy, const Layer::GradientPlace& takes) const;

 private:
  device::Tensor Bias(const UnitPass& pass) const { return product_.bias ? pass.w.Offset(bias_) : device::Tensor{}; }
  // Adds the bias's gradient to `bias`, unless it is null.
  absl::Status WeightInBands(const UnitPass& pass, device::LinearBackwardWeightArguments product, float* bias) const;

  const DeclaredProduct product_;
  const int64_t weight_, bias_;
  const LowRank adapters_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_LINEAR_H_
