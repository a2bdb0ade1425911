// Sums, written gradients and bands; see unit_gradient.h.
#include "worker/model/unit_gradient.h"

#include <algorithm>

#include "base/check.h"
#include "base/status.h"
#include "worker/device/band_ops.h"

namespace zerofleet::model {

int64_t GradientMemory::ProductRows(int64_t rows, int64_t columns) const {
  const int64_t step = ops_.bands().BandRows(rows, dtype_);
  return std::max(step, Rows(columns) / step * step);
}

int64_t GradientMemory::Rows(int64_t columns) const {
  return band_bytes_ / device::DTypeBytes(device::DType::kF32) / columns;
}

float* GradientMemory::Zeroed(float* at, int64_t elements) const {
  ops_.Zero(stream_, at, elements * device::DTypeBytes(device::DType::kF32));
  return at;
}

void GradientMemory::Convert(int64_t elements, device::Tensor from, device::Tensor to) const {
  ops_.Convert(stream_, elements, from, to);
}

absl::StatusOr<std::optional<UnitGradient>> UnitGradient::Begin(int unit, ParameterSource& parameters,
                                                                const GradientMemory& memory) {
  if (!parameters.Trains(unit)) return std::optional<UnitGradient>();
  return Create(unit, /*made_once=*/false, parameters, memory);
}

absl::StatusOr<std::optional<UnitGradient>> UnitGradient::BeginMadeOnce(int unit, ParameterSource& parameters,
                                                                        const GradientMemory& memory) {
  if (!parameters.Trains(unit)) return std::optional<UnitGradient>();
  return Create(unit, /*made_once=*/true, parameters, memory);
}

absl::StatusOr<UnitGradient> UnitGradient::Create(int unit, bool made_once, ParameterSource& parameters,
                                                  const GradientMemory& memory) {
  if (parameters.TakesBands()) {
    ZF_CHECK(memory.band());
    return UnitGradient(unit, nullptr, {}, parameters, memory);
  }
  if (made_once) {
    ZF_ASSIGN_OR_RETURN(const device::Tensor written, parameters.WrittenGradient(unit));
    if (written) {
      UnitGradient gradient(unit, nullptr, written, parameters, memory);
      if (gradient.rounds()) memory.Zeroed(memory.vectors().data(), std::ssize(memory.vectors()));
      return gradient;
    }
  }
  ZF_ASSIGN_OR_RETURN(float* const sums, parameters.Gradient(unit));
  return UnitGradient(unit, sums, {}, parameters, memory);
}

absl::Status UnitGradient::End() {
  for (const Run& run : runs_) {
    memory_.Convert(run.elements, {run.sums, device::DType::kF32}, written_.Offset(run.begin));
  }
  return in_bands() ? absl::OkStatus() : parameters_.DeliverGradient(unit_);
}

void UnitGradient::Place(int64_t begin, device::LinearBackwardWeightArguments& product) const {
  ZF_CHECK(!in_bands());
  if (written_) {
    product.written = written_.Offset(begin);
  } else {
    product.dw = sums_ + begin;
  }
}

float* UnitGradient::SumsAt(int64_t begin, int64_t elements) {
  if (sums_ != nullptr) return sums_ + begin;
  const std::span<float> vectors = memory_.vectors();
  ZF_CHECK(elements <= std::ssize(vectors));
  if (in_bands()) return memory_.Zeroed(vectors.data(), elements);
  if (!rounds()) return memory_.Zeroed(static_cast<float*>(written_.Offset(begin).data), elements);
  float* const sums = (runs_.empty() ? vectors.data() + vectors.size() : runs_.back().sums) - elements;
  ZF_CHECK(sums >= vectors.data());
  if (!runs_.empty() && begin + elements == runs_.back().begin) {
    runs_.back() = {begin, elements + runs_.back().elements, sums};
  } else {
    runs_.push_back({begin, elements, sums});
  }
  return sums;
}

absl::Status UnitGradient::Deliver(int64_t begin, int64_t elements, device::Tensor values) const {
  return in_bands() ? parameters_.DeliverBand(unit_, begin, elements, values) : absl::OkStatus();
}

}  // namespace zerofleet::model
