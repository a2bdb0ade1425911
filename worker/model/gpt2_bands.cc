// Where GPT-2's gradients of parameters go: to the sums of a unit, or away in bands of rows; see gpt2.h.
//
// A band has the bits that its rows have in the whole gradient (worker/device/band_ops.h), so both ways are one to
// training. Of a unit the backward makes the last tensors first; a band of each leaves before the next one is made.
#include <algorithm>

#include "base/check.h"
#include "base/status.h"
#include "worker/device/band_ops.h"
#include "worker/model/gpt2.h"

namespace zerofleet::model {

int64_t Gpt2::BandBytes() const {
  if (checkpointing_.band_bytes == 0) return 0;
  const int64_t hidden = config_.hidden();
  const auto band = [&](int64_t rows, int64_t columns) { return ops_.bands().BandRows(rows, dtype_) * columns; };
  // Which part this is, memory must not depend on; only the last has fewer tokens.
  const auto of_vocabulary = [&](int index) {
    return band(RowsOfPart(config_.vocab(), {.index = index, .count = part_.count}).real, hidden);
  };
  // The least that holds a norm, a row of positions, and a band of each matrix.
  const int64_t elements =
      std::max({2 * hidden, band(3 * attention_width_, hidden), band(hidden, attention_width_), band(inner_, hidden),
                band(hidden, inner_), of_vocabulary(0), of_vocabulary(part_.count - 1)});
  return std::max(checkpointing_.band_bytes, elements * device::DTypeBytes(device::DType::kF32));
}

float* Gpt2::ZeroBand(int64_t elements, device::Stream& stream) const {
  ops_.Zero(stream, memory_.band, elements * device::DTypeBytes(device::DType::kF32));
  return memory_.band;
}

int64_t Gpt2::RowsAtATime(int64_t rows, int64_t columns) const {
  const int64_t step = ops_.bands().BandRows(rows, dtype_);
  const int64_t fit = BandBytes() / device::DTypeBytes(device::DType::kF32) / columns;
  return std::max(step, fit / step * step);
}

absl::StatusOr<Gpt2::UnitGradient> Gpt2::BeginGradient(int unit, ParameterSource& parameters) const {
  if (parameters.TakesBands()) {
    ZF_CHECK(memory_.band != nullptr);
    return UnitGradient{unit, nullptr, parameters};
  }
  ZF_ASSIGN_OR_RETURN(float* const whole, parameters.Gradient(unit));
  return UnitGradient{unit, whole, parameters};
}

absl::Status Gpt2::EndGradient(const UnitGradient& dw) {
  return dw.whole == nullptr ? absl::OkStatus() : dw.parameters.DeliverGradient(dw.unit);
}

absl::Status Gpt2::BackwardWeight(const UnitGradient& dw, int64_t weight, int64_t bias,
                                  device::LinearBackwardWeightArguments product, device::Stream& stream) {
  if (dw.whole != nullptr) {
    product.dw = dw.whole + weight;
    product.dbias = dw.whole + bias;
    ops_.LinearBackwardWeight(stream, product);
    return absl::OkStatus();
  }
  const int64_t most = RowsAtATime(product.n, product.k);
  float* const sums = ScratchMemory().bias_gradient;
  ops_.Zero(stream, sums, product.n * device::DTypeBytes(device::DType::kF32));
  for (int64_t first = 0; first < product.n; first += most) {
    const int64_t rows = std::min(most, product.n - first);
    product.dw = ZeroBand(rows * product.k, stream);
    product.dbias = sums + first;
    ops_.bands().LinearBackwardWeightBand(stream, product, {first, rows});
    ZF_RETURN_IF_ERROR(dw.parameters.DeliverBand(dw.unit, weight + first * product.k, rows * product.k, product.dw));
  }
  return dw.parameters.DeliverBand(dw.unit, bias, product.n, sums);
}

float* Gpt2::SumsAt(const UnitGradient& dw, int64_t begin, int64_t elements, device::Stream& stream) const {
  return dw.whole != nullptr ? dw.whole + begin : ZeroBand(elements, stream);
}

absl::Status Gpt2::DeliverBand(const UnitGradient& dw, int64_t begin, int64_t elements, const float* sums) {
  return dw.whole != nullptr ? absl::OkStatus() : dw.parameters.DeliverBand(dw.unit, begin, elements, sums);
}

// In each row the same order as in one piece: the tokens' logits, then the tokens of the lookup.
absl::Status Gpt2::EmbeddingInBands(const MicroBatch& batch, const float* gradient_scale, device::Tensor embedding,
                                    ParameterSource& parameters, device::Stream& stream) {
  const int64_t hidden = config_.hidden(), m = batch.sequences * batch.time;
  const SectionRows rows = RowsOfPart(config_.vocab(), part_);
  const device::VocabularyPart part = vocabulary_part();
  const Scratch scratch = ScratchMemory();
  ZF_ASSIGN_OR_RETURN(const device::Tensor dx, WholeGradient(m, "embedding", stream));
  const device::EmbeddingBackwardArguments lookup{.batch = batch.sequences,
                                                  .time = batch.time,
                                                  .c = hidden,
                                                  .tokens = batch.inputs,
                                                  .dx = dx,
                                                  .dwte = memory_.band,
                                                  .dwpe = memory_.band};
  const int64_t most = RowsAtATime(part.rows, hidden);
  for (int64_t first = 0; first < rows.all; first += most) {
    const int64_t count = std::min(most, rows.all - first), real = std::min(count, rows.real - first);
    float* const band = ZeroBand(count * hidden, stream);
    if (real > 0) {
      ops_.bands().CrossEntropyBand(stream, {.m = m,
                                             .c = hidden,
                                             .part = part,
                                             .in_parts = in_parts(),
                                             .band = {first, real},
                                             .rows = device::PartLogitsRows(m, in_parts() ? rows.all : config_.vocab()),
                                             .x = scratch.head_input,
                                             .w = embedding.Offset(embedding_.wte),
                                             .targets = batch.targets,
                                             .gradient_scale = gradient_scale,
                                             .kept = scratch.logits_gradient,
                                             .dw = band,
                                             .scratch = in_parts() ? scratch.logits : scratch.cross_entropy});
      ops_.bands().EmbeddingBackwardBand(stream, lookup, {part.first + first, real});
    }
    ZF_RETURN_IF_ERROR(parameters.DeliverBand(embedding_unit(), embedding_.wte + first * hidden, count * hidden, band));
  }
  parameters.Release(embedding_unit());
  return PositionsInBands(lookup, parameters, stream);
}

absl::Status Gpt2::PositionsInBands(const device::EmbeddingBackwardArguments& lookup, ParameterSource& parameters,
                                    device::Stream& stream) {
  const int64_t hidden = lookup.c;
  const int64_t most = BandBytes() / device::DTypeBytes(device::DType::kF32) / hidden;
  for (int64_t first = 0; first < config_.context(); first += most) {
    const int64_t count = std::min(most, config_.context() - first);
    float* const band = ZeroBand(count * hidden, stream);
    ops_.bands().PositionsBackwardBand(stream, lookup, {first, count});
    ZF_RETURN_IF_ERROR(parameters.DeliverBand(embedding_unit(), embedding_.wpe + first * hidden, count * hidden, band));
  }
  return absl::OkStatus();
}

}  // namespace zerofleet::model
