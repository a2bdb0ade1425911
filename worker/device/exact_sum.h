// A sum of doubles without rounding: the same in whatever order they are added, and however they are divided among
// ranks, threads or blocks of a kernel. It is rounded once, when it is read.
//
// The sum is an integer in units of 2^kLowest, in limbs of 32 bits. Each limb is kept in 64, so that many values may be
// added before any carry is passed on. Runs on the host and in kernels.
#ifndef ZEROFLEET_WORKER_DEVICE_EXACT_SUM_H_
#define ZEROFLEET_WORKER_DEVICE_EXACT_SUM_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "worker/device/host_device.h"

namespace zerofleet::device {

struct ExactSum {
  static constexpr int kLimbs = 20, kLimbBits = 32;
  static constexpr int kLowest = -320;  // below the square of the smallest float, 2^-298
  // How many doubles may be added before Normalize.
  static constexpr int64_t kMostAdded = int64_t{1} << 29;

  // Bits of a value below 2^kLowest are cut off before it is added. From 2^kMost on a value is infinite.
  static constexpr int kMost = 308;

  int64_t limbs[kLimbs] = {};
  uint32_t infinite = 0;  // 1: a +infinity was added, 2: a -infinity, 3: both
  uint32_t nan = 0;

  ZF_HOST_DEVICE void Add(double value);
  ZF_HOST_DEVICE void Add(const ExactSum& other);  // both normalized; so is the result
  // Passes carries on; afterwards every limb but the last is in [0, 2^32).
  ZF_HOST_DEVICE void Normalize();
  // The nearest double; of two equally near ones the even one.
  ZF_HOST_DEVICE double Value() const;
};

// Squares are summed in blocks of this many elements, each block in double; the blocks' sums are added exactly. Every
// rank's shard begins at a multiple of it (coordinator/partition.h), so that blocks never depend on the number of
// ranks.
inline constexpr int64_t kSquaresTogether = 32;

// The sum of the squares of up to kSquaresTogether floats, in a fixed order. A float's square is exact in double, so
// that a fused multiplication changes no bit.
ZF_HOST_DEVICE inline double BlockOfSquares(const float* x, int64_t count) {
  constexpr int kLanes = 8;
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const double value = static_cast<double>(x[i + lane]);
      sums[lane] += value * value;
    }
  }
  for (int lane = 0; i + lane < count; ++lane) {
    const double value = static_cast<double>(x[i + lane]);
    sums[lane] += value * value;
  }
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

ZF_HOST_DEVICE inline void ExactSum::Add(double value) {
  constexpr int kMantissaBits = 52, kExponentMask = 0x7ff, kBias = 1075;  // for the mantissa's lowest bit
  constexpr uint64_t kLimbMask = 0xffffffff;
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const bool negative = (bits >> 63) != 0;
  const int exponent = static_cast<int>(bits >> kMantissaBits) & kExponentMask;
  uint64_t mantissa = bits & ((uint64_t{1} << kMantissaBits) - 1);
  if (exponent == kExponentMask && mantissa != 0) {
    nan = 1;
    return;
  }
  int place = exponent - kBias - kLowest;
  if (place + kMantissaBits + 1 > kMost - kLowest) {
    infinite |= negative ? 2 : 1;
    return;
  }
  if (exponent > 0) mantissa |= uint64_t{1} << kMantissaBits;
  if (place < 0) {
    if (place <= -64) return;
    mantissa >>= -place;
    place = 0;
  }
  const int limb = place / kLimbBits, shift = place % kLimbBits;
  const uint64_t low = (mantissa & kLimbMask) << shift, high = (mantissa >> kLimbBits) << shift;
  const int64_t sign = negative ? -1 : 1;
  limbs[limb] += sign * static_cast<int64_t>(low & kLimbMask);
  limbs[limb + 1] += sign * static_cast<int64_t>((low >> kLimbBits) + (high & kLimbMask));
  limbs[limb + 2] += sign * static_cast<int64_t>(high >> kLimbBits);
}

ZF_HOST_DEVICE inline void ExactSum::Add(const ExactSum& other) {
  for (int limb = 0; limb < kLimbs; ++limb) limbs[limb] += other.limbs[limb];
  infinite |= other.infinite;
  nan |= other.nan;
  Normalize();
}

ZF_HOST_DEVICE inline void ExactSum::Normalize() {
  for (int limb = 0; limb + 1 < kLimbs; ++limb) {
    const int64_t carry = limbs[limb] >> kLimbBits;  // rounds down, whatever the sign
    limbs[limb] -= carry << kLimbBits;
    limbs[limb + 1] += carry;
  }
}

ZF_HOST_DEVICE inline double ExactSum::Value() const {
  constexpr uint64_t kHalf = 0x400, kRest = 0x7ff;  // in the 11 of 64 bits that a mantissa has no room for
  constexpr int kRestBits = 11;
  if (nan != 0 || infinite == 3) return std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  if (infinite != 0) return infinite == 1 ? infinity : -infinity;
  ExactSum sum = *this;
  sum.Normalize();
  const bool negative = sum.limbs[kLimbs - 1] < 0;
  if (negative) {
    for (int64_t& limb : sum.limbs) limb = -limb;
    sum.Normalize();
  }
  int top = kLimbs - 1;
  while (top >= 0 && sum.limbs[top] == 0) --top;
  if (top < 0) return 0.0;
  if (sum.limbs[top] >> kLimbBits != 0) return negative ? -infinity : infinity;
  const auto at = [&](int limb) { return limb < 0 ? uint64_t{0} : static_cast<uint64_t>(sum.limbs[limb]); };
  // The highest 64 bits, and whether anything is below them.
  uint64_t bits = at(top) << kLimbBits | at(top - 1), below = at(top - 2);
  int exponent = kLowest + kLimbBits * (top - 1);
  for (; bits >> 63 == 0; --exponent) {
    below <<= 1;
    bits = bits << 1 | (below >> kLimbBits & 1);
  }
  bool more = (below & 0xffffffff) != 0;
  for (int limb = top - 3; limb >= 0; --limb) more = more || sum.limbs[limb] != 0;
  uint64_t mantissa = bits >> kRestBits;
  const uint64_t rest = bits & kRest;
  if (rest > kHalf || (rest == kHalf && (more || (mantissa & 1) != 0))) ++mantissa;
  const double value = std::ldexp(static_cast<double>(mantissa), exponent + kRestBits);
  return negative ? -value : value;
}

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_EXACT_SUM_H_
