// What the tests of kernels on the emulated GPU share: vectors at any alignment with exact bounds, and every order of
// threads.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_KERNEL_TESTING_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_KERNEL_TESTING_H_

#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "worker/device/conformance/device_fixture.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/emulation/fibers.h"

namespace zerofleet::device::cuda {

inline constexpr DType kAllTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

// A bound for the error of one rounding of a value in [-1, 1], times `magnitude`.
inline double Rounding(DType dtype, double magnitude = 1) {
  return magnitude * (dtype == DType::kF32 ? 4e-6 : dtype == DType::kBF16 ? 0x1p-8 : 0x1p-10);
}

// `count` elements of emulated device memory that start `skip` elements past an aligned address and end where the
// reservation does, so that a sanitizer catches the first access out of bounds. Reproducible values in [-1, 1); `salt`
// distinguishes vectors.
class Vector {
 public:
  Vector(Device& device, int64_t count, DType dtype, int salt, int64_t skip = 0)
      : reservation_(device.Reserve((skip + count) * DTypeBytes(dtype)).value()),
        dtype_(dtype),
        count_(count),
        skip_(skip) {
    uint32_t state = 2654435761u * static_cast<uint32_t>(salt + 1);
    for (int64_t i = 0; i < count; ++i) {
      state = state * 1664525u + 1013904223u;
      Set(i, static_cast<float>(state >> 8) * 0x1p-23f - 1.0f);
    }
  }
  // Checks that nothing wrote to the memory before the vector.
  ~Vector() {
    const std::byte *const begin = reservation_->data(), *const end = begin + skip_ * DTypeBytes(dtype_);
    EXPECT_TRUE(std::all_of(begin, end, [](std::byte byte) { return byte == std::byte{0}; }));
  }

  Tensor tensor() const { return Tensor{reservation_->data(), dtype_}.Offset(skip_); }
  template <typename T = float>
  T* as() const {
    return static_cast<T*>(tensor().data);
  }
  int64_t count() const { return count_; }
  float Get(int64_t i) const {
    return dtype_ == DType::kF32 ? as()[i] : dtype_ == DType::kBF16 ? ToFloat(as<BF16>()[i]) : ToFloat(as<F16>()[i]);
  }
  void Set(int64_t i, float value) {
    switch (dtype_) {
      case DType::kF32: as()[i] = value; break;
      case DType::kBF16: as<BF16>()[i] = ToBF16(value); break;
      case DType::kF16: as<F16>()[i] = ToF16(value); break;
    }
  }
  std::vector<float> Values() const {
    std::vector<float> values;
    for (int64_t i = 0; i < count_; ++i) values.push_back(Get(i));
    return values;
  }
  // The bits of every element.
  std::vector<uint8_t> Bytes() const {
    const uint8_t* const begin = as<uint8_t>();
    return {begin, begin + count_ * DTypeBytes(dtype_)};
  }

 private:
  std::unique_ptr<Reservation> reservation_;
  DType dtype_;
  int64_t count_, skip_;
};

class KernelTest : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_TRUE(stream_->Synchronize().ok());
    emulation::SetThreadOrder(emulation::ThreadOrder::kForward);
  }
  Ops& ops() { return device_->ops(); }
  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }

  // Runs `test` with the GPU's threads in each order. `test` returns values, whose bits must be the same each time.
  template <typename Test>
  void InEveryOrder(const Test& test) {
    emulation::SetThreadOrder(emulation::ThreadOrder::kForward);
    const auto want = test();
    for (const auto order : {emulation::ThreadOrder::kBackward, emulation::ThreadOrder::kShuffled}) {
      emulation::SetThreadOrder(order);
      ASSERT_TRUE(test() == want) << "in another order of threads";
    }
    emulation::SetThreadOrder(emulation::ThreadOrder::kForward);
  }

 private:
  std::unique_ptr<CudaDevice> device_ = CudaDevice::Create(0).value();
  std::unique_ptr<Stream> stream_ = device_->CreateStream().value();
};

inline void ExpectNear(const Vector& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.count(), static_cast<int64_t>(want.size()));
  for (int64_t i = 0; i < got.count(); ++i) ASSERT_NEAR(got.Get(i), want[i], tolerance) << "element " << i;
}

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_KERNEL_TESTING_H_
