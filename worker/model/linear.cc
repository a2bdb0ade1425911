// Products forward and backward; see linear.h.
#include "worker/model/linear.h"

#include <algorithm>

#include "base/status.h"
#include "worker/device/band_ops.h"

namespace zerofleet::model {

void Linear::Forward(const UnitPass& pass, device::Tensor x, device::Tensor y, device::Tensor activated) const {
  const Pass& p = pass.pass;
  if (activated && adapters_.empty()) {
    p.ops.LinearGeluForward(p.stream, {.m = p.m(),
                                       .n = product_.n,
                                       .k = product_.k,
                                       .x = x,
                                       .w = pass.w.Offset(weight_),
                                       .bias = Bias(pass),
                                       .before = y,
                                       .y = activated});
  } else {
    p.ops.LinearForward(p.stream, {.m = p.m(),
                                   .n = product_.n,
                                   .k = product_.k,
                                   .x = x,
                                   .w = pass.w.Offset(weight_),
                                   .bias = Bias(pass),
                                   .y = y});
  }
  if (adapters_.empty()) return;
  adapters_.Add(pass, p.m(), x, y, product_.n);
  if (activated) p.ops.GeluForward(p.stream, p.m() * product_.n, y, activated);
}

// A rank adds the residual for the tokens that it has, and part 0 adds the bias for all tokens.
absl::Status Linear::ForwardIntoStream(const UnitPass& pass, device::Tensor x, device::Tensor residual,
                                       device::Tensor sum) const {
  const Pass& p = pass.pass;
  const ResidualStream& stream = p.residual;
  const int64_t m = p.m(), mine = stream.Tokens(m), first = stream.FirstToken(m);
  const device::Tensor all = stream.SummandPlace(sum, p.scratch.narrow);
  const auto project = [&](int64_t begin, int64_t end, device::Tensor added) {
    if (begin == end) return;
    p.ops.LinearForward(p.stream, {.m = end - begin,
                                   .n = product_.n,
                                   .k = product_.k,
                                   .x = x.Offset(begin * product_.k),
                                   .w = pass.w.Offset(weight_),
                                   .bias = stream.Once(Bias(pass)),
                                   .residual = added,
                                   .y = all.Offset(begin * product_.n)});
  };
  project(0, first, {});
  project(first, first + mine, stream.divided() ? residual : stream.Once(residual));
  project(first + mine, m, {});
  if (!adapters_.empty()) adapters_.Add(pass, m, x, all, product_.n);
  return stream.SumOverParts(all, sum, m, pass.unit, p.stream);
}

absl::Status Linear::BackwardWeight(const UnitPass& pass, device::Tensor dy, device::Tensor x) const {
  if (!adapters_.empty()) adapters_.BackwardWeights(pass, dy, product_.n, x);
  if (pass.dw == nullptr) return absl::OkStatus();
  device::LinearBackwardWeightArguments product{.m = pass.pass.m(), .n = product_.n, .k = product_.k, .dy = dy, .x = x};
  float* const bias = product_.bias ? pass.dw->SumsAt(bias_, product_.n) : nullptr;
  if (pass.dw->in_bands()) {
    ZF_RETURN_IF_ERROR(WeightInBands(pass, product, bias));
  } else {
    pass.dw->Place(weight_, product);
    product.dbias = bias;
    pass.pass.ops.LinearBackwardWeight(pass.pass.stream, product);
  }
  return bias == nullptr ? absl::OkStatus() : pass.dw->Deliver(bias_, product.n, bias);
}

absl::Status Linear::WeightInBands(const UnitPass& pass, device::LinearBackwardWeightArguments product,
                                   float* bias) const {
  const Pass& p = pass.pass;
  const int64_t most = p.gradients.ProductRows(product.n, product.k);
  product.written = p.gradients.band();
  for (int64_t first = 0; first < product.n; first += most) {
    const int64_t rows = std::min(most, product.n - first);
    product.dbias = bias == nullptr ? nullptr : bias + first;
    p.ops.bands().LinearBackwardWeightBand(p.stream, product, {first, rows});
    ZF_RETURN_IF_ERROR(pass.dw->Deliver(weight_ + first * product.k, rows * product.k, product.written));
  }
  return absl::OkStatus();
}

device::Tensor Linear::BackwardInput(const UnitPass& pass, device::Tensor dy, const Layer::GradientPlace& takes) const {
  const Pass& p = pass.pass;
  const device::Tensor w = pass.w.Offset(weight_);
  if (takes.before) {
    p.ops.LinearBackwardInputGelu(p.stream, {.m = p.m(),
                                             .n = product_.n,
                                             .k = product_.k,
                                             .dy = dy,
                                             .w = w,
                                             .before = takes.before,
                                             .dbefore = takes.place});
  } else {
    p.ops.LinearBackwardInput(p.stream,
                              {.m = p.m(), .n = product_.n, .k = product_.k, .dy = dy, .w = w, .dx = takes.place});
  }
  if (!adapters_.empty()) adapters_.AddInput(pass, takes.place, takes.before);
  return takes.place;
}

}  // namespace zerofleet::model
