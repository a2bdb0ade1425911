// Where a unit's gradient goes: it is added to the unit's sums, or written where it is to be, or leaves in bands of
// rows, one after another.
//
// A pass adds to the gradients of the embedding and the head more than once, and makes each element of a block's once:
// such a gradient is written, and a product's in the type in which it travels, so that no fp32 sums of it are kept in
// memory. A band has the bits that its rows have in the whole gradient (worker/device/band_ops.h), so that all ways
// train alike. The backward makes a unit's last tensors first; a band leaves before the next one is made.
#ifndef ZEROFLEET_WORKER_MODEL_UNIT_GRADIENT_H_
#define ZEROFLEET_WORKER_MODEL_UNIT_GRADIENT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/ops.h"
#include "worker/model/parameter_source.h"

namespace zerofleet::model {

// The memory in which parts of gradients are made before they go where they are to be, one at a time.
class GradientMemory {
 public:
  // `band` has no bytes where gradients are not taken in bands; `vectors` holds the sums of all vectors of a unit.
  GradientMemory(device::Ops& ops, device::Stream& stream, device::DType dtype, int64_t band_bytes, float* band,
                 std::span<float> vectors)
      : ops_(ops), stream_(stream), dtype_(dtype), band_bytes_(band_bytes), band_(band), vectors_(vectors) {}

  // Returns `elements` floats of zeros, to make a band in.
  float* Zeros(int64_t elements) const { return Zeroed(band_, elements); }
  std::span<float> vectors() const { return vectors_; }
  // Where a product writes a band, in the compute type.
  device::Tensor band() const { return {band_, dtype_}; }
  // The number of rows in a band of a gradient (rows, columns) that the device's product makes.
  int64_t ProductRows(int64_t rows, int64_t columns) const;
  // The number of rows in a band of a gradient that may be cut at every row.
  int64_t Rows(int64_t columns) const;

  float* Zeroed(float* at, int64_t elements) const;
  void Convert(int64_t elements, device::Tensor from, device::Tensor to) const;

 private:
  device::Ops& ops_;
  device::Stream& stream_;
  const device::DType dtype_;
  const int64_t band_bytes_;
  float* const band_;
  const std::span<float> vectors_;
};

class UnitGradient {
 public:
  // Nothing if the unit is frozen. Errors as from ParameterSource::Gradient.
  static absl::StatusOr<std::optional<UnitGradient>> Begin(int unit, ParameterSource& parameters,
                                                           const GradientMemory& memory);
  // The same for a unit each of whose elements the pass makes once.
  static absl::StatusOr<std::optional<UnitGradient>> BeginMadeOnce(int unit, ParameterSource& parameters,
                                                                   const GradientMemory& memory);
  absl::Status End();

  bool in_bands() const { return sums_ == nullptr && !written_; }
  // The unit's sums, fp32; null in any other case.
  float* sums() const { return sums_; }
  // Tells a product where its gradient goes, which begins at `begin` in the unit. Not in bands.
  void Place(int64_t begin, device::LinearBackwardWeightArguments& product) const;
  // Where to add the `elements` floats of a vector at offset `begin` of the unit: to its sums, or to zeros, to be
  // delivered by Deliver.
  float* SumsAt(int64_t begin, int64_t elements);
  // Sends a band, or a vector from SumsAt, on its way; nothing where it stays until End.
  absl::Status Deliver(int64_t begin, int64_t elements, device::Tensor values) const;
  absl::Status Deliver(int64_t begin, int64_t elements, float* values) const {
    return Deliver(begin, elements, device::Tensor{values, device::DType::kF32});
  }

 private:
  UnitGradient(int unit, float* sums, device::Tensor written, ParameterSource& parameters, const GradientMemory& memory)
      : unit_(unit), sums_(sums), written_(written), parameters_(parameters), memory_(memory) {}

  static absl::StatusOr<UnitGradient> Create(int unit, bool made_once, ParameterSource& parameters,
                                             const GradientMemory& memory);

  // Vectors that are neighbours in the unit and in the memory of their sums.
  struct Run {
    int64_t begin, elements;
    float* sums;
  };

  bool rounds() const { return written_ && written_.dtype != device::DType::kF32; }

  const int unit_;
  float* const sums_;
  const device::Tensor written_;
  ParameterSource& parameters_;
  const GradientMemory& memory_;
  // Vectors to be rounded at the end, all in a few launches. Their sums lie in the unit's order, whose last vectors
  // come first.
  std::vector<Run> runs_;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_UNIT_GRADIENT_H_
