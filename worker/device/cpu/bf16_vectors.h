// What the files that are written in AVX-512 BF16's intrinsics share. Their code stands between ZF_BEGIN_BF16_CODE and
// ZF_END_BF16_CODE, which allow the compiler these instructions there and nowhere else.
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_BF16_VECTORS_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_BF16_VECTORS_H_

#if defined(__x86_64__)
#define ZF_HAS_BF16_CODE 1

#include <immintrin.h>

#include <cstdint>

#include "hwy/base.h"

#define ZF_BEGIN_BF16_CODE HWY_PUSH_ATTRIBUTES("avx2,fma,avx512f,avx512vl,avx512dq,avx512bw,avx512bf16")
#define ZF_END_BF16_CODE HWY_POP_ATTRIBUTES

ZF_BEGIN_BF16_CODE
namespace zerofleet::device {

// The lowest `count` lanes; all from 16 on, none below 1.
HWY_INLINE __mmask16 FirstLanes(int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffff : count <= 0 ? 0 : (1 << count) - 1);
}

HWY_INLINE __m512 AddDots(__m512 sum, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}

// Rounded to nearest, ties to even; subnormal numbers become 0.
HWY_INLINE __m256i RoundToBF16(__m512 values) { return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(values)); }

HWY_INLINE __m512i Widen(__m256i halves) { return _mm512_cvtepu16_epi32(halves); }

// Words whose lower halves are `first` and whose upper halves are `second`.
HWY_INLINE __m512i PairUp(__m256i first, __m256i second) {
  return _mm512_or_si512(Widen(first), _mm512_slli_epi32(Widen(second), 16));
}

struct SumOf {
  static HWY_INLINE __m256 Combine(__m256 a, __m256 b) { return _mm256_add_ps(a, b); }
};
struct MaxOf {
  static HWY_INLINE __m256 Combine(__m256 a, __m256 b) { return _mm256_max_ps(a, b); }
};

// SumOf or MaxOf all lanes, through memory: GCC 12 warns of what its own intrinsics for these leave uninitialized
// (_mm512_reduce_add_ps).
template <class Operation>
HWY_INLINE float OverLanes(__m512 values) {
  alignas(64) float lanes[16];
  _mm512_store_ps(lanes, values);
  const __m256 eight = Operation::Combine(_mm256_load_ps(lanes), _mm256_load_ps(lanes + 8));
  const __m256 four = Operation::Combine(eight, _mm256_permute2f128_ps(eight, eight, 1));
  const __m256 two = Operation::Combine(four, _mm256_permute_ps(four, 0b01001110));
  return _mm256_cvtss_f32(Operation::Combine(two, _mm256_permute_ps(two, 0b10110001)));
}

}  // namespace zerofleet::device
ZF_END_BF16_CODE

#else
#define ZF_HAS_BF16_CODE 0
#endif

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_BF16_VECTORS_H_
