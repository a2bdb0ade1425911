// A typed pointer to the elements of an array. The op that takes it knows the shape.
#ifndef ZEROFLEET_WORKER_DEVICE_TENSOR_H_
#define ZEROFLEET_WORKER_DEVICE_TENSOR_H_

#include <cstddef>
#include <cstdint>

#include "worker/device/dtype.h"

namespace zerofleet::device {

struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kF32;

  Tensor Offset(int64_t elements) const {
    return {static_cast<std::byte*>(data) + elements * DTypeBytes(dtype), dtype};
  }
  explicit operator bool() const { return data != nullptr; }
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_TENSOR_H_
