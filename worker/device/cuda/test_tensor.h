// Matrices for the tests of this folder's products: reproducible values, any type, spare columns, chosen alignment.
//
// In the emulation device memory is the host's, so a test reads and writes it in place, and a sanitizer checks its
// exact bounds.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_TEST_TENSOR_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_TEST_TENSOR_H_

#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "worker/device/ops.h"

namespace zerofleet::device::cuda {

class TestTensor {
 public:
  // Values in [-1, 1); starts `skip` elements after a multiple of 256 bytes.
  TestTensor(int64_t rows, int64_t columns, DType dtype, uint32_t salt, int64_t spare = 0, int64_t skip = 0)
      : rows_(rows), stride_(columns + spare), dtype_(dtype), skip_(skip) {
    const int64_t bytes = (skip + rows * stride_) * DTypeBytes(dtype);
    // Ends where the last element does, so that a sanitizer catches the first access out of bounds.
    memory_.reset(static_cast<std::byte*>(::operator new(bytes, kAlignment)));
    uint32_t state = salt * 2654435761u + 12345u;
    for (int64_t i = 0; i < rows * stride_; ++i) {
      state = state * 1664525u + 1013904223u;
      Set(i, static_cast<float>(state >> 8) * 0x1p-23f - 1.0f);
    }
  }

  Tensor tensor() const { return Tensor{memory_.get(), dtype_}.Offset(skip_); }
  template <typename T = float>
  T* as() const {
    return static_cast<T*>(tensor().data);
  }
  int64_t stride() const { return stride_; }
  int64_t count() const { return rows_ * stride_; }
  DType dtype() const { return dtype_; }

  float At(int64_t row, int64_t column) const { return Get(row * stride_ + column); }
  float Get(int64_t i) const {
    switch (dtype_) {
      case DType::kF32: return as<float>()[i];
      case DType::kBF16: return ToFloat(as<BF16>()[i]);
      case DType::kF16: return ToFloat(as<F16>()[i]);
    }
    return 0;
  }
  void Set(int64_t i, float value) {
    switch (dtype_) {
      case DType::kF32: as<float>()[i] = value; break;
      case DType::kBF16: as<BF16>()[i] = ToBF16(value); break;
      case DType::kF16: as<F16>()[i] = ToF16(value); break;
    }
  }
  std::vector<float> Values() const {
    std::vector<float> values;
    for (int64_t i = 0; i < count(); ++i) values.push_back(Get(i));
    return values;
  }

 private:
  static constexpr std::align_val_t kAlignment{256};
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }
  };
  int64_t rows_, stride_;
  DType dtype_;
  int64_t skip_;
  std::unique_ptr<std::byte, Free> memory_;
};

// The tolerance for comparing a result of this type with `want`, computed in double.
inline double Tolerance(DType dtype, double want) {
  const double magnitude = 1 + (want < 0 ? -want : want);
  return magnitude * (dtype == DType::kF32 ? 2e-5 : dtype == DType::kF16 ? 0x1p-10 : 0x1p-7);
}

inline double ReferenceGelu(double x) {
  return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

inline double ReferenceGeluSlope(double x) {
  const double t = std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 0.134145 * x * x);
}

inline constexpr DType kTestTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_TEST_TENSOR_H_
