// Lookups forward and backward; see embedding.h.
#include "worker/model/layers/embedding.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/device/vocabulary_ops.h"

namespace zerofleet::model {
namespace {

std::string TableName(const char* name) {
  ZF_CHECK(name != nullptr);
  return absl::StrCat(name, ".weight");
}

}  // namespace

device::VocabularyPart VocabularyPartOf(int64_t vocab, const ModelPart& part) {
  const SectionRows rows = RowsOfPart(vocab, part);
  return {rows.first, rows.real};
}

// The token embedding decays, as the matrix that makes the logits does; the position table does not.
EmbeddingLayer::EmbeddingLayer(const Embedding& row, bool only_looked_up, Declaration& declaration)
    : hidden_(declaration.sizes().hidden),
      vocab_(declaration.sizes().vocab),
      context_(declaration.sizes().context),
      tokens_(declaration.Tensor({.name = TableName(row.tokens),
                                  .shape = {vocab_, hidden_},
                                  .decay = true,
                                  .init = Init::kNormal,
                                  .cut = {Cut::Along::kRows},
                                  .only_looked_up = only_looked_up})),
      positions_(row.positions == nullptr ? -1
                                          : declaration.Tensor({.name = TableName(row.positions),
                                                                .shape = {context_, hidden_},
                                                                .decay = false,
                                                                .init = Init::kNormal,
                                                                .only_looked_up = true})) {}

absl::Status EmbeddingLayer::Forward(const UnitPass& pass, device::Tensor x) const {
  const Pass& p = pass.pass;
  const int64_t first_position = positions_ + p.batch.past() * hidden_;
  device::EmbeddingForwardArguments lookup{.batch = p.batch.sequences,
                                           .time = p.batch.time,
                                           .c = hidden_,
                                           .tokens = p.batch.inputs,
                                           .wte = pass.w.Offset(tokens_),
                                           .wpe = positions_ < 0 ? device::Tensor{} : pass.w.Offset(first_position),
                                           .x = x,
                                           .starts = p.batch.starts};
  if (!p.residual.in_parts()) {
    p.ops.EmbeddingForward(p.stream, lookup);
    return absl::OkStatus();
  }
  if (lookup.wpe) lookup.wpe = p.residual.Once(lookup.wpe);
  lookup.x = p.residual.SummandPlace(x, p.scratch.narrow);
  p.ops.vocabulary().PartEmbeddingForward(p.stream, VocabularyPartOf(vocab_, p.residual.part()), lookup);
  return p.residual.SumOverParts(lookup.x, x, p.m(), pass.unit, p.stream);
}

device::EmbeddingBackwardArguments EmbeddingLayer::Lookup(const UnitPass& pass, device::Tensor dx, float* dtokens,
                                                          float* dpositions) const {
  const MicroBatch& batch = pass.pass.batch;
  return {.batch = batch.sequences,
          .time = batch.time,
          .c = hidden_,
          .tokens = batch.inputs,
          .dx = dx,
          .dwte = dtokens,
          .dwpe = dpositions,
          .starts = batch.starts};
}

absl::Status EmbeddingLayer::Backward(const UnitPass& pass) const {
  const Pass& p = pass.pass;
  ZF_ASSIGN_OR_RETURN(const device::Tensor dx, p.WholeGradient(pass.unit));
  float* const gradient = pass.dw->sums();
  const device::EmbeddingBackwardArguments lookup =
      Lookup(pass, dx, gradient + tokens_, positions_ < 0 ? nullptr : gradient + positions_);
  if (p.residual.in_parts()) {
    p.ops.vocabulary().PartEmbeddingBackward(p.stream, VocabularyPartOf(vocab_, p.residual.part()), lookup);
  } else {
    p.ops.EmbeddingBackward(p.stream, lookup);
  }
  return absl::OkStatus();
}

absl::Status EmbeddingLayer::TokensInBands(const UnitPass& pass, device::Tensor dx, const AddToBand& add) const {
  const Pass& p = pass.pass;
  const int64_t first = RowsOfPart(vocab_, p.residual.part()).first;
  return DeliverVocabularyInBands(pass, vocab_, hidden_, tokens_, [&](const device::RowBand& rows, float* band) {
    if (add) add(rows, band);
    p.ops.bands().EmbeddingBackwardBand(p.stream, Lookup(pass, dx, band, band), {first + rows.first, rows.count});
  });
}

absl::Status EmbeddingLayer::PositionsInBands(const UnitPass& pass, device::Tensor dx) const {
  if (positions_ < 0) return absl::OkStatus();
  const Pass& p = pass.pass;
  const int64_t most = p.gradients.Rows(hidden_);
  for (int64_t first = 0; first < context_; first += most) {
    const int64_t count = std::min(most, context_ - first);
    float* const band = p.gradients.Zeros(count * hidden_);
    p.ops.bands().PositionsBackwardBand(p.stream, Lookup(pass, dx, band, band), {first, count});
    ZF_RETURN_IF_ERROR(pass.dw->Deliver(positions_ + first * hidden_, count * hidden_, band));
  }
  return absl::OkStatus();
}

}  // namespace zerofleet::model
