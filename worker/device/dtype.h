// Element types of tensors on a device.
#ifndef ZEROFLEET_WORKER_DEVICE_DTYPE_H_
#define ZEROFLEET_WORKER_DEVICE_DTYPE_H_

#include <bit>
#include <cstdint>

#include "worker/device/host_device.h"

namespace zerofleet::device {

enum class DType : uint8_t { kF32, kBF16, kF16 };

constexpr int64_t DTypeBytes(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }
constexpr const char* DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "fp32";
    case DType::kBF16: return "bf16";
    case DType::kF16: return "fp16";
  }
  return "unknown";
}

// bfloat16 as stored: the upper half of a float.
struct BF16 {
  uint16_t bits;
};

// IEEE binary16 as stored.
struct F16 {
  uint16_t bits;
};

ZF_HOST_DEVICE constexpr float ToFloat(BF16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}
ZF_HOST_DEVICE constexpr float ToFloat(float value) { return value; }

ZF_HOST_DEVICE constexpr float ToFloat(F16 value) {
  const uint32_t sign = (value.bits & 0x8000u) << 16, exponent = (value.bits >> 10) & 0x1fu,
                 fraction = value.bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);  // infinity or NaN
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;  // zero and subnormals, exact
  return sign == 0 ? magnitude : -magnitude;
}

// Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
ZF_HOST_DEVICE constexpr BF16 ToBF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return BF16{static_cast<uint16_t>((bits >> 16) | 0x0040u)};
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return BF16{static_cast<uint16_t>(bits >> 16)};
}

// As ToBF16; a magnitude of 65520 or more becomes an infinity.
ZF_HOST_DEVICE constexpr F16 ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return F16{static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu))};
  if (magnitude >= 0x477ff000u) return F16{static_cast<uint16_t>(sign | 0x7c00u)};
  if (magnitude < 0x38800000u) {
    // Subnormal: adding 0.5 puts the wanted bits at the fraction's end, rounded by the addition.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return F16{static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u))};
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return F16{static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

// value rounded to T.
template <typename T>
ZF_HOST_DEVICE constexpr T FromFloat(float value);
template <>
ZF_HOST_DEVICE constexpr float FromFloat<float>(float value) {
  return value;
}
template <>
ZF_HOST_DEVICE constexpr BF16 FromFloat<BF16>(float value) {
  return ToBF16(value);
}
template <>
ZF_HOST_DEVICE constexpr F16 FromFloat<F16>(float value) {
  return ToF16(value);
}

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_DTYPE_H_
