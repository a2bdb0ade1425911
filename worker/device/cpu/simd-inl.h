// Loads and stores of every element type as fp32 vectors; included once for each instruction set (Highway's way).
//
// Included only by kernels_*.cc and worker/collective/sum.cc, after hwy/foreach_target.h.
#if defined(ZEROFLEET_WORKER_DEVICE_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZEROFLEET_WORKER_DEVICE_CPU_SIMD_INL_H_
#undef ZEROFLEET_WORKER_DEVICE_CPU_SIMD_INL_H_
#else
#define ZEROFLEET_WORKER_DEVICE_CPU_SIMD_INL_H_
#endif

#include "hwy/highway.h"
#include "worker/device/dtype.h"
#include "worker/device/ops.h"
#include "worker/device/step_control.h"

HWY_BEFORE_NAMESPACE();
namespace zerofleet::device::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;
using HalfTag = hn::Rebind<uint16_t, FloatTag>;
inline constexpr int64_t kMaxLanes = HWY_MAX_BYTES / sizeof(float);

HWY_INLINE int64_t FloatLanes() { return static_cast<int64_t>(hn::Lanes(FloatTag())); }

HWY_INLINE FloatVec Load(const float* from) { return hn::LoadU(FloatTag(), from); }

HWY_INLINE FloatVec Load(const BF16* from) {
  const hn::RebindToUnsigned<FloatTag> bits_tag;
  const auto half = hn::LoadU(HalfTag(), reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(bits_tag, half)));
}

// On Highway's targets without vector instructions its own conversions cut off fractions and lose infinities, so
// dtype.h's are used there.
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
#define ZF_HALF_LANE_BY_LANE 1
#else
#define ZF_HALF_LANE_BY_LANE 0
#endif

HWY_INLINE FloatVec Load(const F16* from) {
#if ZF_HALF_LANE_BY_LANE
  alignas(HWY_MAX_BYTES) float lanes[kMaxLanes];
  for (int64_t i = 0; i < FloatLanes(); ++i) lanes[i] = ToFloat(from[i]);
  return hn::Load(FloatTag(), lanes);
#else
  const hn::Rebind<hwy::float16_t, FloatTag> half_tag;
  return hn::PromoteTo(FloatTag(), hn::LoadU(half_tag, reinterpret_cast<const hwy::float16_t*>(from)));
#endif
}

HWY_INLINE void Store(FloatVec value, float* to) { hn::StoreU(value, FloatTag(), to); }

// Rounds as ToF16 in dtype.h does.
HWY_INLINE void Store(FloatVec value, F16* to) {
#if ZF_HALF_LANE_BY_LANE
  alignas(HWY_MAX_BYTES) float lanes[kMaxLanes];
  hn::Store(value, FloatTag(), lanes);
  for (int64_t i = 0; i < FloatLanes(); ++i) to[i] = ToF16(lanes[i]);
#else
  const hn::Rebind<hwy::float16_t, FloatTag> half_tag;
  hn::StoreU(hn::DemoteTo(half_tag, value), half_tag, reinterpret_cast<hwy::float16_t*>(to));
#endif
}

#undef ZF_HALF_LANE_BY_LANE

// Rounded as ToBF16 in dtype.h does, NaN included.
HWY_INLINE hn::Vec<HalfTag> BF16BitsByInteger(FloatVec value) {
  const hn::RebindToUnsigned<FloatTag> bits_tag;
  const hn::RebindToSigned<FloatTag> signed_tag;
  const auto bits = hn::BitCast(bits_tag, value);
  const auto high = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(high, hn::Set(bits_tag, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(bits_tag, 0x7fffu))));
  const auto quiet = hn::Or(high, hn::Set(bits_tag, 0x0040u));
  const auto is_nan = hn::RebindMask(bits_tag, hn::IsNaN(value));
  const auto chosen = hn::IfThenElse(is_nan, quiet, rounded);
  return hn::DemoteTo(HalfTag(), hn::BitCast(signed_tag, chosen));
}

// The same by AVX-512 BF16's instruction where the CPU has it. It takes subnormal numbers as 0, so a vector with one is
// left to integers.
#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX3
inline const bool kRoundsByInstruction = __builtin_cpu_supports("avx512bf16");

HWY_INLINE hn::Vec<HalfTag> BF16Bits(FloatVec value) {
  constexpr int kSubnormal = 0x20;
  if (HWY_UNLIKELY(!kRoundsByInstruction || _mm512_fpclass_ps_mask(value.raw, kSubnormal) != 0)) {
    return BF16BitsByInteger(value);
  }
  hn::Vec<HalfTag> bits;
  asm("vcvtneps2bf16 %1, %0" : "=v"(bits.raw) : "v"(value.raw));
  return bits;
}
#else
HWY_INLINE hn::Vec<HalfTag> BF16Bits(FloatVec value) { return BF16BitsByInteger(value); }
#endif

HWY_INLINE void Store(FloatVec value, BF16* to) {
  hn::StoreU(BF16Bits(value), HalfTag(), reinterpret_cast<uint16_t*>(to));
}

// Stores past the caches, for data that this core does not read soon: a line that is only written is then not read
// first. Allowed where CanStream says so; hwy::FlushStream makes the data visible to other threads. fp16 is stored
// normally.
template <typename T>
HWY_INLINE bool CanStream(const T* to) {
  return reinterpret_cast<uintptr_t>(to) % (static_cast<uintptr_t>(FloatLanes()) * sizeof(T)) == 0;
}
HWY_INLINE void StoreStreaming(FloatVec value, float* to) { hn::Stream(value, FloatTag(), to); }
HWY_INLINE void StoreStreaming(FloatVec value, BF16* to) {
  hn::Stream(BF16Bits(value), HalfTag(), reinterpret_cast<uint16_t*>(to));
}
HWY_INLINE void StoreStreaming(FloatVec value, F16* to) { Store(value, to); }

// Loads the last `count` elements of a range, fewer than a vector; the other lanes hold `padding`.
template <typename T>
HWY_INLINE FloatVec LoadTail(const T* from, int64_t count, float padding = 0.0f) {
  HWY_ALIGN float values[kMaxLanes];
  for (int64_t i = 0; i < kMaxLanes; ++i) values[i] = i < count ? ToFloat(from[i]) : padding;
  return hn::Load(FloatTag(), values);
}

template <typename T>
HWY_INLINE void StoreTail(FloatVec value, T* to, int64_t count) {
  T values[kMaxLanes];
  Store(value, values);
  for (int64_t i = 0; i < count; ++i) to[i] = values[i];
}

// Marks the bodies of ForVectors and SumVectors, which must be inlined: where GCC leaves one as a call, it reads
// everything that the body refers to from memory again for each vector.
#undef ZF_BODY
#define ZF_BODY HWY_ATTR __attribute__((always_inline))

// Calls body(i, lanes) for each whole vector of [0, count), then once for the rest, if any; `body` reads with Read and
// writes with Write, which move a whole vector when lanes is FloatLanes().
template <class Body>
HWY_INLINE void ForVectors(int64_t count, const Body& body) {
  const int64_t lanes = FloatLanes();
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(i, lanes);
  if (i < count) body(i, count - i);
}

template <typename T>
HWY_INLINE FloatVec Read(const T* from, int64_t lanes, float padding = 0.0f) {
  return lanes == FloatLanes() ? Load(from) : LoadTail(from, lanes, padding);
}

template <typename T>
HWY_INLINE void Write(FloatVec value, T* to, int64_t lanes) {
  if (lanes == FloatLanes()) {
    Store(value, to);
  } else {
    StoreTail(value, to, lanes);
  }
}

// The sum of add(i, lanes, sum) over the vectors of [0, count), where `add` returns `sum` plus what is at i. Four
// running sums, so that an addition need not wait for the one before; their order depends on count alone.
template <class Add>
HWY_INLINE FloatVec SumVectors(int64_t count, const Add& add) {
  const int64_t lanes = FloatLanes();
  FloatVec a = hn::Zero(FloatTag()), b = a, c = a, d = a;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a = add(i, lanes, a);
    b = add(i + lanes, lanes, b);
    c = add(i + 2 * lanes, lanes, c);
    d = add(i + 3 * lanes, lanes, d);
  }
  for (; i + lanes <= count; i += lanes) a = add(i, lanes, a);
  if (i < count) b = add(i, count - i, b);
  return hn::Add(hn::Add(a, b), hn::Add(c, d));
}

HWY_INLINE float Sum(FloatVec value) { return hn::GetLane(hn::SumOfLanes(FloatTag(), value)); }

// exp(x) for x up to 88, within 1.5 units in the last place; 0 below -87.3. A NaN stays a NaN.
//
// exp(x) = 2^n exp(r) with n the integer nearest to x / ln 2. r takes two steps, since ln 2 has more digits than a
// float: n times the first part is exact, with or without fused products (Cody and Waite 1980). exp(r) is computed by
// the polynomial with the smallest maximal relative error (2e-9).
HWY_INLINE FloatVec Exp(FloatVec x) {
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> bits_tag;
  // Adding this number leaves n + 127, the exponent bits of the float 2^n, in the lowest bits.
  const auto shifter = hn::Set(d, 12582912.0f + 127.0f);
  const auto shifted = hn::MulAdd(x, hn::Set(d, 1.44269502f), shifter);
  const auto n = hn::Sub(shifted, shifter);
  const auto r = hn::MulAdd(n, hn::Set(d, 2.12194440e-4f), hn::MulAdd(n, hn::Set(d, -0.693359375f), x));
  // Coefficients are combined in pairs, which makes a shorter chain than Horner's scheme.
  const auto square = hn::Mul(r, r);
  const auto first = hn::Add(r, hn::Set(d, 1.0f));
  const auto second = hn::MulAdd(hn::Set(d, 0.16666419804096222f), r, hn::Set(d, 0.49999991059303284f));
  const auto third = hn::MulAdd(hn::Set(d, 0.008374815806746483f), r, hn::Set(d, 0.04166822507977486f));
  const auto fourth = hn::MulAdd(hn::Set(d, 0.0013836845755577087f), square, third);
  const auto power = hn::MulAdd(hn::MulAdd(fourth, square, second), square, first);
  const auto scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(bits_tag, shifted)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3f)), hn::Mul(power, scale));
}

// Calls body with the tensor's data as a pointer to its element type.
template <class Body>
HWY_INLINE void WithType(Tensor tensor, const Body& body) {
  switch (tensor.dtype) {
    case DType::kF32: return body(static_cast<float*>(tensor.data));
    case DType::kBF16: return body(static_cast<BF16*>(tensor.data));
    case DType::kF16: return body(static_cast<F16*>(tensor.data));
  }
}

// element_math.inc for whole vectors.
struct VectorMath {
  using V = FloatVec;
  static HWY_INLINE V Set(float value) { return hn::Set(FloatTag(), value); }
  static HWY_INLINE V Neg(V x) { return hn::Neg(x); }
  static HWY_INLINE V MulAdd(V a, V b, V c) { return hn::MulAdd(a, b, c); }
  static HWY_INLINE V NegMulAdd(V a, V b, V c) { return hn::NegMulAdd(a, b, c); }
  static HWY_INLINE V Min(V a, V b) { return hn::Min(a, b); }
  static HWY_INLINE V Exp(V x) { return kernels::HWY_NAMESPACE::Exp(x); }
  static HWY_INLINE V Sqrt(V x) { return hn::Sqrt(x); }
  static HWY_INLINE V Reciprocal(V x) { return Set(1.0f) / x; }
};

#define ZF_ELEMENT HWY_INLINE
#include "worker/device/element_math.inc"
#undef ZF_ELEMENT

}  // namespace zerofleet::device::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
