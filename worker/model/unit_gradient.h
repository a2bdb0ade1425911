// Where a unit's gradient goes: to its sums, or away in bands of rows, one after another.
//
// A band has the bits that its rows have in the whole gradient (worker/device/band_ops.h), so that both ways train
// alike. The backward makes a unit's last tensors first; a band leaves before the next one is made.
#ifndef ZEROFLEET_WORKER_MODEL_UNIT_GRADIENT_H_
#define ZEROFLEET_WORKER_MODEL_UNIT_GRADIENT_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "worker/device/ops.h"
#include "worker/model/parameter_source.h"

namespace zerofleet::model {

// The memory in which bands are made, one at a time. It has no bytes where gradients are not taken in bands.
class BandMemory {
 public:
  BandMemory(device::Ops& ops, device::DType dtype, int64_t bytes, float* memory)
      : ops_(ops), dtype_(dtype), bytes_(bytes), memory_(memory) {}

  // Returns `elements` floats of zeros, to make a band in.
  float* Zeros(int64_t elements, device::Stream& stream) const;
  float* memory() const { return memory_; }
  // The number of rows in a band of a gradient (rows, columns) that the device's product makes.
  int64_t ProductRows(int64_t rows, int64_t columns) const;
  // The number of rows in a band of a gradient that may be cut at every row.
  int64_t Rows(int64_t columns) const;

 private:
  device::Ops& ops_;
  const device::DType dtype_;
  const int64_t bytes_;
  float* const memory_;
};

class UnitGradient {
 public:
  // Nothing if the unit is frozen. Errors as from ParameterSource::Gradient.
  static absl::StatusOr<std::optional<UnitGradient>> Begin(int unit, ParameterSource& parameters,
                                                           const BandMemory& bands);
  absl::Status End() const;

  // Null where the gradient leaves in bands.
  float* whole() const { return whole_; }
  const BandMemory& bands() const { return bands_; }
  // Where to add `elements` floats at offset `begin` of the unit: in the whole gradient, or in a band, to be delivered
  // by Deliver.
  float* SumsAt(int64_t begin, int64_t elements, device::Stream& stream) const;
  absl::Status Deliver(int64_t begin, int64_t elements, const float* sums) const;

 private:
  UnitGradient(int unit, float* whole, ParameterSource& parameters, const BandMemory& bands)
      : unit_(unit), whole_(whole), parameters_(parameters), bands_(bands) {}

  const int unit_;
  float* const whole_;
  ParameterSource& parameters_;
  const BandMemory& bands_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_UNIT_GRADIENT_H_
