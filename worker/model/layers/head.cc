// Norm, logits and loss; see head.h.
#include "worker/model/layers/head.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/device/vocabulary_ops.h"
#include "worker/model/layers/embedding.h"

namespace zerofleet::model {
namespace {

device::Tensor NormedPlace(const Pass& pass, bool in_bands) {
  return in_bands ? pass.scratch.head_input : pass.scratch.wide;
}

}  // namespace

HeadLayer::HeadLayer(const Head& row, float epsilon, Declaration& declaration)
    : hidden_(declaration.sizes().hidden),
      vocab_(declaration.sizes().vocab),
      norm_(row.norm, epsilon, declaration),
      output_(row.Tied(declaration.sizes()) ? -1
                                            : declaration.Tensor({.name = absl::StrCat(row.output, ".weight"),
                                                                  .shape = {vocab_, hidden_},
                                                                  .decay = true,
                                                                  .init = Init::kNormal,
                                                                  .cut = {Cut::Along::kRows},
                                                                  .unprefixed = true})),
      norm_sums_(declaration.norm_sums()) {}

NormOp::Places HeadLayer::PlacesIn(const Pass& pass, device::Tensor output) const {
  return {pass.activations.FinalInput(), output, pass.scratch.head_mean, pass.scratch.head_rstd};
}

absl::Status HeadLayer::Forward(const UnitPass& pass, const Loss& loss) const {
  return norm_.Forward(pass, PlacesIn(pass.pass, NormedPlace(pass.pass, loss.in_bands)));
}

absl::Status HeadLayer::ComputeLoss(const UnitPass& pass, const Loss& loss) const {
  const Pass& p = pass.pass;
  const device::CrossEntropyArguments arguments{.m = p.m(),
                                                .c = hidden_,
                                                .vocab = vocab_,
                                                .x = NormedPlace(p, loss.in_bands),
                                                .w = loss.output,
                                                .targets = p.batch.targets,
                                                .gradient_scale = loss.gradient_scale,
                                                .loss_sum = loss.sum,
                                                .dx = loss.backward ? p.scratch.narrow : device::Tensor{},
                                                .dw = loss.doutput,
                                                .scratch = p.scratch.cross_entropy,
                                                .kept = loss.in_bands ? p.scratch.logits_gradient : nullptr,
                                                .terms = loss.terms};
  if (p.residual.in_parts()) return PartLoss(pass, arguments);
  p.ops.CrossEntropy(p.stream, arguments);
  return absl::OkStatus();
}

// Makes the logits of some tokens at a time: the parts of their softmax are exchanged before the next logits take their
// place.
absl::Status HeadLayer::PartLoss(const UnitPass& pass, const device::CrossEntropyArguments& whole) const {
  const Pass& p = pass.pass;
  const ModelPart& part = p.residual.part();
  const device::VocabularyPart vocabulary = VocabularyPartOf(vocab_, part);
  const int64_t most = device::LogitsRows(whole.m, RowsOfPart(vocab_, part).all);
  float* const logits = static_cast<float*>(p.scratch.logits);
  p.ops.Zero(p.stream, whole.loss_sum, sizeof *whole.loss_sum);
  for (int64_t first = 0; first < whole.m; first += most) {
    const int64_t rows = std::min(most, whole.m - first);
    const device::Tensor x = whole.x.Offset(first * whole.c);
    p.ops.vocabulary().PartLogits(p.stream, {.m = rows,
                                             .c = whole.c,
                                             .part = vocabulary,
                                             .x = x,
                                             .w = whole.w,
                                             .targets = whole.targets + first,
                                             .logits = logits,
                                             .softmax = p.scratch.softmax + part.index * rows,
                                             .vocab = vocab_,
                                             .label_smoothing = whole.terms.label_smoothing});
    ZF_RETURN_IF_ERROR(p.residual.group()->AllGather(
        p.stream, p.scratch.softmax, rows * static_cast<int64_t>(sizeof(device::SoftmaxPart)), pass.unit));
    p.ops.vocabulary().PartCrossEntropy(p.stream, {.m = rows,
                                                   .c = whole.c,
                                                   .part = vocabulary,
                                                   .index = part.index,
                                                   .parts = part.count,
                                                   .softmax = p.scratch.softmax,
                                                   .x = x,
                                                   .w = whole.w,
                                                   .targets = whole.targets + first,
                                                   .gradient_scale = whole.gradient_scale,
                                                   .loss_sum = whole.loss_sum,
                                                   .logits = logits,
                                                   .scratch = p.scratch.logits,
                                                   .dx = whole.dx ? whole.dx.Offset(first * whole.c) : device::Tensor{},
                                                   .dw = whole.dw,
                                                   .kept = whole.kept ? whole.kept + first : nullptr,
                                                   .vocab = vocab_,
                                                   .terms = whole.terms});
  }
  return absl::OkStatus();
}

// The place of the norm's output, which is no longer needed or is kept elsewhere for bands, takes the gradient of the
// norm's input.
absl::Status HeadLayer::Backward(const UnitPass& pass) const {
  const Pass& p = pass.pass;
  const device::Tensor dinput = p.scratch.wide;
  const int64_t elements = p.residual.Tokens(p.m()) * hidden_;
  p.ops.Zero(p.stream, dinput.data, elements * device::DTypeBytes(p.scratch.wide.dtype));
  ZF_RETURN_IF_ERROR(norm_.Backward(pass, PlacesIn(p, {}), p.scratch.narrow, dinput));
  if (p.residual.divided() && pass.dw != nullptr) {
    ZF_RETURN_IF_ERROR(SumNormGradients(pass, norm_sums_));
    ZF_RETURN_IF_ERROR(norm_.AddGradient(pass));
  }
  p.ops.Convert(p.stream, elements, dinput, p.activations.FinalInput());
  return absl::OkStatus();
}

absl::Status HeadLayer::OutputInBands(const UnitPass& pass, const Loss& loss) const {
  return DeliverVocabularyInBands(pass, vocab_, hidden_, output_, [&](const device::RowBand& rows, float* band) {
    AddToBand(pass.pass, loss, rows, band);
  });
}

void HeadLayer::AddToBand(const Pass& pass, const Loss& loss, const device::RowBand& rows, float* band) const {
  const bool in_parts = pass.residual.in_parts();
  const ModelPart& part = pass.residual.part();
  pass.ops.bands().CrossEntropyBand(pass.stream,
                                    {.m = pass.m(),
                                     .c = hidden_,
                                     .part = VocabularyPartOf(vocab_, part),
                                     .in_parts = in_parts,
                                     .band = rows,
                                     .rows = device::LogitsRows(pass.m(), RowsOfPart(vocab_, part).all),
                                     .x = pass.scratch.head_input,
                                     .w = loss.output,
                                     .targets = pass.batch.targets,
                                     .gradient_scale = loss.gradient_scale,
                                     .kept = pass.scratch.logits_gradient,
                                     .dw = band,
                                     .scratch = in_parts ? pass.scratch.logits : pass.scratch.cross_entropy});
}

void HeadLayer::NormaliseLast(const UnitPass& pass) const {
  NormOp::Places places = PlacesIn(pass.pass, pass.pass.scratch.narrow);
  places.input = places.input.Offset((pass.pass.m() - 1) * hidden_);
  norm_.ForwardOne(pass, places);
}

void HeadLayer::LastLogits(const UnitPass& pass, device::Tensor output, device::Tensor logits) const {
  const Pass& p = pass.pass;
  p.ops.LinearForward(p.stream, {.m = 1, .n = vocab_, .k = hidden_, .x = p.scratch.narrow, .w = output, .y = logits});
}

}  // namespace zerofleet::model
