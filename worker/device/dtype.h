// Element types of tensors on a device.
#ifndef ZEROFLEET_WORKER_DEVICE_DTYPE_H_
#define ZEROFLEET_WORKER_DEVICE_DTYPE_H_

#include <bit>
#include <cstdint>

namespace zerofleet {

enum class DType : uint8_t { kF32, kBF16 };

constexpr int64_t DTypeBytes(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }
constexpr const char* DTypeName(DType dtype) { return dtype == DType::kF32 ? "fp32" : "bf16"; }

// bfloat16 as stored: the upper half of a float.
struct BF16 {
  uint16_t bits;
};

constexpr float ToFloat(BF16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }
constexpr float ToFloat(float value) { return value; }

// Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
constexpr BF16 ToBF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return BF16{static_cast<uint16_t>((bits >> 16) | 0x0040u)};
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return BF16{static_cast<uint16_t>(bits >> 16)};
}

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_DEVICE_DTYPE_H_
