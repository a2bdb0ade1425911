// What the conformance suite shares: which devices it runs on, tensors in device memory, comparisons.
//
// Every test runs on every device of DeviceKinds in every compute type. A device this build or machine lacks is
// skipped with CreateDevice's own reason. To bring in a backend, add its kind to DeviceKinds.
#ifndef ZEROFLEET_WORKER_DEVICE_CONFORMANCE_DEVICE_FIXTURE_H_
#define ZEROFLEET_WORKER_DEVICE_CONFORMANCE_DEVICE_FIXTURE_H_

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "worker/device/device.h"
#include "worker/device/ops.h"

namespace zerofleet::device {

std::vector<std::string> DeviceKinds();

// `value` rounded to `dtype`.
float Rounded(float value, DType dtype);

// `count` reproducible values in [-1, 1), rounded to `dtype`; different `salt`s give different values.
std::vector<float> Values(int64_t count, int salt, DType dtype = DType::kF32);

// A tensor in device memory.
class DeviceTensor {
 public:
  DeviceTensor(Device& device, const std::vector<float>& values, DType dtype = DType::kF32);
  DeviceTensor(Device& device, const std::vector<int32_t>& values);
  DeviceTensor(Device& device, int64_t bytes);  // zeroed; read as any type

  Tensor tensor() const { return {reservation_->data(), dtype_}; }
  template <typename T = float>
  T* as() const {
    return reinterpret_cast<T*>(reservation_->data());
  }
  std::vector<float> Read(Device& device) const;

 private:
  std::unique_ptr<Reservation> reservation_;
  DType dtype_ = DType::kF32;
};

// A test of a (device kind, compute type) pair: the device is created, or the test skipped.
class DeviceTest : public ::testing::TestWithParam<std::tuple<std::string, DType>> {
 protected:
  void SetUp() override;
  static std::unique_ptr<Device> Create(int threads);

  DType dtype() const { return std::get<1>(GetParam()); }
  Device& device() { return *device_; }
  Ops& ops() { return device_->ops(); }
  Stream& stream() { return *stream_; }
  std::vector<float> Random(int64_t count, int salt) const { return Values(count, salt, dtype()); }
  DeviceTensor Put(const std::vector<float>& values) { return DeviceTensor(device(), values, dtype()); }
  DeviceTensor PutFloat(const std::vector<float>& values) { return DeviceTensor(device(), values); }
  DeviceTensor PutInts(const std::vector<int32_t>& values) { return DeviceTensor(device(), values); }
  DeviceTensor Room(int64_t count) { return Put(std::vector<float>(count)); }
  std::vector<float> Get(const DeviceTensor& tensor);

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

// Expects each element within the rounding error of `dtype`, relative to the largest element. `roundings` is how often
// a device may round on the way to a result.
void ExpectClose(const std::vector<float>& got, const std::vector<double>& want, DType dtype, int roundings = 1);

// Compares `gradient` with central differences of `loss` at `at`, for every element or every `stride`-th.
void ExpectGradient(const std::function<double(const std::vector<float>&)>& loss, const std::vector<float>& at,
                    const std::vector<float>& gradient, size_t stride = 1);

double Dot(const std::vector<float>& a, const std::vector<float>& b);

// Runs the suite on every device and every type.
#define ZF_CONFORMANCE(Suite)                                                        \
  INSTANTIATE_TEST_SUITE_P(                                                          \
      Devices, Suite,                                                                \
      ::testing::Combine(::testing::ValuesIn(DeviceKinds()),                         \
                         ::testing::Values(DType::kF32, DType::kBF16, DType::kF16)), \
      [](const auto& info) { return std::get<0>(info.param) + "_" + DTypeName(std::get<1>(info.param)); })

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_CONFORMANCE_DEVICE_FIXTURE_H_
