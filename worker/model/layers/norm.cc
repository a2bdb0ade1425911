// A norm forward and backward; see norm.h.
#include "worker/model/layers/norm.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/device/llama_ops.h"

namespace zerofleet::model {

NormOp::NormOp(const Norm& row, float epsilon, Declaration& declaration)
    : kind_(row.kind),
      hidden_(declaration.sizes().hidden),
      epsilon_(epsilon),
      weight_(declaration.Tensor({absl::StrCat(row.name, ".weight"), {hidden_}, false, Init::kOnes})),
      bias_(rms() ? -1 : declaration.Tensor({absl::StrCat(row.name, ".bias"), {hidden_}, false, Init::kZeros})),
      sums_at_(declaration.NormSums(elements(), declaration.divides_stream())) {}

void NormOp::Normalise(const UnitPass& pass, const Places& places, int64_t m, device::Tensor output) const {
  if (rms()) {
    pass.pass.ops.llama().RmsNormForward(pass.pass.stream, {.m = m,
                                                            .c = hidden_,
                                                            .epsilon = epsilon_,
                                                            .x = places.input,
                                                            .gamma = pass.w.Offset(weight_),
                                                            .y = output,
                                                            .rstd = places.rstd});
    return;
  }
  pass.pass.ops.LayerNormForward(pass.pass.stream, {.m = m,
                                                    .c = hidden_,
                                                    .epsilon = epsilon_,
                                                    .x = places.input,
                                                    .gamma = pass.w.Offset(weight_),
                                                    .beta = pass.w.Offset(bias_),
                                                    .y = output,
                                                    .mean = places.mean,
                                                    .rstd = places.rstd});
}

absl::Status NormOp::Forward(const UnitPass& pass, const Places& places) const {
  const ResidualStream& stream = pass.pass.residual;
  const int64_t m = pass.pass.m();
  Normalise(pass, places, stream.Tokens(m), stream.Rows(places.output, m));
  return stream.Gather(places.output, m, pass.unit, pass.pass.stream);
}

void NormOp::ForwardOne(const UnitPass& pass, const Places& places) const { Normalise(pass, places, 1, places.output); }

absl::Status NormOp::Backward(const UnitPass& pass, const Places& places, device::Tensor dy, device::Tensor dx) const {
  const Pass& p = pass.pass;
  const ResidualStream& stream = p.residual;
  const device::Tensor mine = stream.Rows(dy, p.m());
  ZF_RETURN_IF_ERROR(stream.SumOverParts(dy, mine, p.m(), pass.unit, p.stream));
  float* sums = nullptr;  // null if the norm is frozen
  if (pass.dw == nullptr) {
  } else if (stream.divided()) {
    sums = p.scratch.norm_gradients + sums_at_;
    p.ops.Zero(p.stream, sums, elements() * static_cast<int64_t>(sizeof(float)));
  } else {
    sums = pass.dw->SumsAt(weight_, elements());
  }
  AddGradients(pass, places, mine, dx, sums);
  return sums == nullptr || stream.divided() ? absl::OkStatus() : pass.dw->Deliver(weight_, elements(), sums);
}

void NormOp::AddGradients(const UnitPass& pass, const Places& places, device::Tensor dy, device::Tensor dx,
                          float* sums) const {
  const Pass& p = pass.pass;
  const int64_t m = p.residual.Tokens(p.m());
  const device::Tensor gamma = pass.w.Offset(weight_);
  if (rms()) {
    p.ops.llama().RmsNormBackward(p.stream, {.m = m,
                                             .c = hidden_,
                                             .dy = dy,
                                             .x = places.input,
                                             .gamma = gamma,
                                             .rstd = places.rstd,
                                             .dx = dx,
                                             .dgamma = sums});
    return;
  }
  p.ops.LayerNormBackward(p.stream, {.m = m,
                                     .c = hidden_,
                                     .dy = dy,
                                     .x = places.input,
                                     .gamma = gamma,
                                     .mean = places.mean,
                                     .rstd = places.rstd,
                                     .dx = dx,
                                     .dgamma = sums,
                                     .dbeta = sums == nullptr ? nullptr : sums + hidden_});
}

absl::Status NormOp::AddGradient(const UnitPass& pass) const {
  if (!pass.pass.residual.divided()) return absl::OkStatus();
  return AddSummedGradient(pass, weight_, elements(), pass.pass.scratch.norm_gradients + sums_at_);
}

absl::Status AddSummedGradient(const UnitPass& pass, int64_t weight, int64_t elements, float* sums) {
  const Pass& p = pass.pass;
  float* const gradient = pass.dw->SumsAt(weight, elements);
  p.ops.Accumulate(p.stream, elements, {sums, device::DType::kF32}, gradient);
  return pass.dw->Deliver(weight, elements, gradient);
}

absl::Status SumNormGradients(const UnitPass& pass, int64_t elements) {
  const Pass& p = pass.pass;
  return p.residual.group()->AllReduce(p.stream, {p.scratch.norm_gradients, device::DType::kF32}, elements, pass.unit);
}

namespace {

int Statistics(Declaration& declaration) {
  return declaration.Activation(
      {.columns = 1, .tokens = ActivationRow::Tokens::kOfStream, .statistics = true, .cheap = true});
}

}  // namespace

NormLayer::NormLayer(const Norm& row, float epsilon, Declaration& declaration)
    : branch_(declaration.BeginBranch()),
      norm_(row, epsilon, declaration),
      output_(declaration.Activation({.columns = declaration.sizes().hidden, .cheap = true})),
      mean_(row.kind == NormKind::kRms ? -1 : Statistics(declaration)),
      rstd_(Statistics(declaration)) {
  declaration.Gradient(declaration.sizes().hidden);
  declaration.Pointwise(3 * 2 * declaration.sizes().hidden);
}

NormOp::Places NormLayer::PlacesIn(const UnitPass& pass) const {
  return {pass.StreamBefore(branch_), pass.At(output_), mean_ < 0 ? nullptr : pass.StatisticsAt(mean_),
          pass.StatisticsAt(rstd_)};
}

absl::StatusOr<device::Tensor> NormLayer::Backward(const UnitPass& pass, device::Tensor dy) const {
  ZF_RETURN_IF_ERROR(norm_.Backward(pass, PlacesIn(pass), dy, pass.pass.activations.FinalInput()));
  return device::Tensor{};
}

}  // namespace zerofleet::model
