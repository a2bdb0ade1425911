// See device_fixture.h.
#include "worker/device/conformance/device_fixture.h"

#include <algorithm>
#include <cmath>

namespace zerofleet::device {

std::vector<std::string> DeviceKinds() { return {"cpu", "cuda"}; }

float Rounded(float value, DType dtype) {
  switch (dtype) {
    case DType::kF32: return value;
    case DType::kBF16: return ToFloat(ToBF16(value));
    case DType::kF16: return ToFloat(ToF16(value));
  }
  return value;
}

std::vector<float> Values(int64_t count, int salt, DType dtype) {
  std::vector<float> values(count);
  uint32_t state = 2654435761u * static_cast<uint32_t>(salt + 1);
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
    value = Rounded(value, dtype);
  }
  return values;
}

DeviceTensor::DeviceTensor(Device& device, const std::vector<float>& values, DType dtype)
    : reservation_(device.Reserve(static_cast<int64_t>(values.size()) * DTypeBytes(dtype)).value()), dtype_(dtype) {
  std::vector<uint16_t> halves;
  const void* from = values.data();
  if (dtype != DType::kF32) {
    for (const float value : values) halves.push_back(dtype == DType::kBF16 ? ToBF16(value).bits : ToF16(value).bits);
    from = halves.data();
  }
  const auto stream = device.CreateStream().value();
  device.Copy(*stream, reservation_->data(), from, reservation_->bytes());
  EXPECT_TRUE(stream->Synchronize().ok());
}

DeviceTensor::DeviceTensor(Device& device, const std::vector<int32_t>& values)
    : DeviceTensor(device, static_cast<int64_t>(values.size() * sizeof(int32_t))) {
  const auto stream = device.CreateStream().value();
  device.Copy(*stream, reservation_->data(), values.data(), reservation_->bytes());
  EXPECT_TRUE(stream->Synchronize().ok());
}

DeviceTensor::DeviceTensor(Device& device, int64_t bytes) : reservation_(device.Reserve(bytes).value()) {}

std::vector<float> DeviceTensor::Read(Device& device) const {
  std::vector<float> values(reservation_->bytes() / DTypeBytes(dtype_));
  std::vector<uint16_t> halves(dtype_ == DType::kF32 ? 0 : values.size());
  const auto stream = device.CreateStream().value();
  void* const to = dtype_ == DType::kF32 ? static_cast<void*>(values.data()) : halves.data();
  device.Copy(*stream, to, reservation_->data(), reservation_->bytes());
  EXPECT_TRUE(stream->Synchronize().ok());
  std::transform(halves.begin(), halves.end(), values.begin(),
                 [this](uint16_t bits) { return dtype_ == DType::kBF16 ? ToFloat(BF16{bits}) : ToFloat(F16{bits}); });
  return values;
}

std::unique_ptr<Device> DeviceTest::Create(int threads) {
  auto device = CreateDevice({.kind = std::get<0>(GetParam()), .threads = threads});
  return device.ok() ? std::move(device).value() : nullptr;
}

void DeviceTest::SetUp() {
  auto device = CreateDevice({.kind = std::get<0>(GetParam()), .threads = 2});
  if (!device.ok()) GTEST_SKIP() << device.status().message();
  device_ = std::move(device).value();
  stream_ = device_->CreateStream().value();
}

std::vector<float> DeviceTest::Get(const DeviceTensor& tensor) {
  EXPECT_TRUE(stream_->Synchronize().ok());
  return tensor.Read(*device_);
}

void ExpectClose(const std::vector<float>& got, const std::vector<double>& want, DType dtype, int roundings) {
  ASSERT_EQ(got.size(), want.size());
  double largest = 1e-3;
  for (const double value : want) largest = std::max(largest, std::abs(value));
  const double rounding = dtype == DType::kF32 ? 4e-6 : dtype == DType::kBF16 ? 0x1p-8 : 0x1p-10;
  const double tolerance = largest * rounding * roundings;
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], tolerance) << "element " << i;
}

void ExpectGradient(const std::function<double(const std::vector<float>&)>& loss, const std::vector<float>& at,
                    const std::vector<float>& gradient, size_t stride) {
  ASSERT_EQ(at.size(), gradient.size());
  constexpr float kStep = 1.0f / 128;
  double largest = 1e-2;
  for (const float value : gradient) largest = std::max<double>(largest, std::abs(value));
  for (size_t i = 0; i < at.size(); i += stride) {
    std::vector<float> above = at, below = at;
    above[i] += kStep;
    below[i] -= kStep;
    const double slope = (loss(above) - loss(below)) / (static_cast<double>(above[i]) - below[i]);
    ASSERT_NEAR(gradient[i], slope, 1e-3 * largest) << "element " << i;
  }
}

double Dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

}  // namespace zerofleet::device
