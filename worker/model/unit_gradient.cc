// Sums and bands; see unit_gradient.h.
#include "worker/model/unit_gradient.h"

#include <algorithm>

#include "base/check.h"
#include "base/status.h"
#include "worker/device/band_ops.h"

namespace zerofleet::model {

float* BandMemory::Zeros(int64_t elements, device::Stream& stream) const {
  ops_.Zero(stream, memory_, elements * device::DTypeBytes(device::DType::kF32));
  return memory_;
}

int64_t BandMemory::ProductRows(int64_t rows, int64_t columns) const {
  const int64_t step = ops_.bands().BandRows(rows, dtype_);
  return std::max(step, Rows(columns) / step * step);
}

int64_t BandMemory::Rows(int64_t columns) const { return bytes_ / device::DTypeBytes(device::DType::kF32) / columns; }

absl::StatusOr<std::optional<UnitGradient>> UnitGradient::Begin(int unit, ParameterSource& parameters,
                                                                const BandMemory& bands) {
  if (!parameters.Trains(unit)) return std::optional<UnitGradient>();
  if (parameters.TakesBands()) {
    ZF_CHECK(bands.memory() != nullptr);
    return std::optional<UnitGradient>(UnitGradient(unit, nullptr, parameters, bands));
  }
  ZF_ASSIGN_OR_RETURN(float* const whole, parameters.Gradient(unit));
  return std::optional<UnitGradient>(UnitGradient(unit, whole, parameters, bands));
}

absl::Status UnitGradient::End() const {
  return whole_ == nullptr ? absl::OkStatus() : parameters_.DeliverGradient(unit_);
}

float* UnitGradient::SumsAt(int64_t begin, int64_t elements, device::Stream& stream) const {
  return whole_ != nullptr ? whole_ + begin : bands_.Zeros(elements, stream);
}

absl::Status UnitGradient::Deliver(int64_t begin, int64_t elements, const float* sums) const {
  return whole_ != nullptr ? absl::OkStatus() : parameters_.DeliverBand(unit_, begin, elements, sums);
}

}  // namespace zerofleet::model
