// Sums one cache-resident block of elements at a time: every contribution is read once, the result written once.
//
// The loops are plain and vectorise. They are compiled twice, for AVX2 and for any x86-64, and chosen at run time;
// they only add, so the wider registers change no bit.
#include "worker/collective/sum.h"

#include <algorithm>

namespace zerofleet {
namespace {

constexpr int64_t kBlock = 1024;  // elements; the fp32 accumulator is 4 KiB, well inside the first-level cache

template <typename T>
[[gnu::always_inline]] inline void Load(const T* from, float* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] = ToFloat(from[i]);
}

template <typename T>
[[gnu::always_inline]] inline void Add(const T* from, float* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] += ToFloat(from[i]);
}

[[gnu::always_inline]] inline void Store(const float* __restrict from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] = from[i];
}

[[gnu::always_inline]] inline void Store(const float* __restrict from, BF16* to, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] = ToBF16(from[i]);
}

template <typename From, typename To>
[[gnu::always_inline]] inline void Sum(std::span<const void* const> contributions, To* to, int64_t count) {
  alignas(64) float total[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t block = std::min(kBlock, count - begin);
    Load(static_cast<const From*>(contributions[0]) + begin, total, block);
    for (size_t i = 1; i < contributions.size(); i++) {
      Add(static_cast<const From*>(contributions[i]) + begin, total, block);
    }
    Store(total, to + begin, block);
  }
}

[[gnu::always_inline]] inline void Dispatch(std::span<const void* const> contributions, DType dtype, void* to,
                                            DType to_dtype, int64_t count) {
  const bool from_f32 = dtype == DType::kF32, to_f32 = to_dtype == DType::kF32;
  if (from_f32 && to_f32) return Sum<float>(contributions, static_cast<float*>(to), count);
  if (from_f32) return Sum<float>(contributions, static_cast<BF16*>(to), count);
  if (to_f32) return Sum<BF16>(contributions, static_cast<float*>(to), count);
  Sum<BF16>(contributions, static_cast<BF16*>(to), count);
}

void SumPortable(std::span<const void* const> contributions, DType dtype, void* to, DType to_dtype, int64_t count) {
  Dispatch(contributions, dtype, to, to_dtype, count);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) void SumAvx2(std::span<const void* const> contributions, DType dtype, void* to,
                                             DType to_dtype, int64_t count) {
  Dispatch(contributions, dtype, to, to_dtype, count);
}
#endif

}  // namespace

void SumInOrder(std::span<const void* const> contributions, DType dtype, void* to, DType to_dtype, int64_t count) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return SumAvx2(contributions, dtype, to, to_dtype, count);
#endif
  SumPortable(contributions, dtype, to, to_dtype, count);
}

}  // namespace zerofleet
