// Consecutive aligned places in a buffer; with a null base it only measures.
#ifndef ZEROFLEET_WORKER_MODEL_CARVER_H_
#define ZEROFLEET_WORKER_MODEL_CARVER_H_

#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "worker/device/tensor.h"
#include "worker/model/kept_inputs.h"

namespace zerofleet::model {

class Carver {
 public:
  static constexpr int64_t kAlignment = KeptInputs::kAlignment;

  explicit Carver(void* base) : base_(static_cast<std::byte*>(base)) {}
  void* Bytes(int64_t bytes) {
    std::byte* at = base_ == nullptr ? nullptr : base_ + used_;
    used_ += RoundUp(bytes, kAlignment);
    return at;
  }
  device::Tensor Matrix(int64_t elements, device::DType dtype) {
    return {Bytes(elements * device::DTypeBytes(dtype)), dtype};
  }
  float* Floats(int64_t elements) { return static_cast<float*>(Bytes(elements * static_cast<int64_t>(sizeof(float)))); }
  int64_t used() const { return used_; }

 private:
  std::byte* base_;
  int64_t used_ = 0;
};

}  // namespace zerofleet::model

#endif  // ZEROFLEET_WORKER_MODEL_CARVER_H_
