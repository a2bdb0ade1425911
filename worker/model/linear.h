// A product with a weight of a block, whole or a part of it (Shoeybi et al. 2019): by rows of the weight, which puts
// out a part of what is wide, or by columns, which takes a part and puts out a summand of the residual stream.
//
// What changes every product of a model belongs here and nowhere else.
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
  // With (n, k) of a part, and where its weight and its bias are in the unit.
  Linear(const DeclaredProduct& product, int64_t weight, int64_t bias, LowRank adapters)
      : product_(product), weight_(weight), bias_(bias), adapters_(std::move(adapters)) {}

  int64_t n() const { return product_.n; }

  // y(M,N) = x(M,K) w^T + bias. With `activated`, that is GELU of y, by the same op.
  void Forward(const UnitPass& pass, device::Tensor x, device::Tensor y, device::Tensor activated) const;
  // sum = residual + the sum over the parts of x w^T + bias, of the residual stream's tokens.
  absl::Status ForwardIntoStream(const UnitPass& pass, device::Tensor x, device::Tensor residual,
                                 device::Tensor sum) const;

  // To the gradient of weight and bias, unless they are frozen: dy^T x, and the sums of dy.
  absl::Status BackwardWeight(const UnitPass& pass, device::Tensor dy, device::Tensor x) const;
  // The gradient of x, where it is taken; returns that place.
  device::Tensor BackwardInput(const UnitPass& pass, device::Tensor dy, const Layer::GradientPlace& takes) const;

 private:
  device::Tensor Bias(const UnitPass& pass) const { return product_.bias ? pass.w.Offset(bias_) : device::Tensor{}; }
  absl::Status WeightInBands(const UnitPass& pass, device::LinearBackwardWeightArguments product) const;

  const DeclaredProduct product_;
  const int64_t weight_, bias_;
  const LowRank adapters_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_LINEAR_H_
