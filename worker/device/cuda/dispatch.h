// Selects the kernel compiled for a tensor's element type, which is known only at run time.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_DISPATCH_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_DISPATCH_H_

#include <utility>

#include "worker/device/dtype.h"

namespace zerofleet::device::cuda {

template <typename T>
struct TypeTag {
  using Type = T;
};

// Calls `body` with the TypeTag of `dtype`: float, BF16 or F16.
template <typename Body>
void WithType(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kF32: return body(TypeTag<float>());
    case DType::kBF16: return body(TypeTag<BF16>());
    case DType::kF16: return body(TypeTag<F16>());
  }
}

// As WithType, for two types.
template <typename Body>
void WithTypes(DType first, DType second, Body&& body) {
  WithType(first, [&](auto a) { WithType(second, [&](auto b) { body(a, b); }); });
}

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_DISPATCH_H_
