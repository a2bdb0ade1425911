// Sums one cache-resident block of elements at a time: every contribution is read once, the result written once.
//
// The loops are plain and vectorise. They are compiled twice, for AVX2 and for any x86-64, and chosen at run time;
// they only add, so the wider registers change no bit. Conversions of fp16 do not vectorise; with AVX2 they are the
// processor's own (every one with AVX2 has F16C), which round alike.
#include "worker/collective/sum.h"

#include <algorithm>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace zerofleet {
namespace {

constexpr int64_t kBlock = 1024;  // elements; the fp32 accumulator is 4 KiB, well inside the first-level cache

// Which of the two ways a loop is compiled for.
struct AnyCpu {};
struct Avx2 {};

template <typename T>
[[gnu::always_inline]] inline void Load(AnyCpu, const T* from, float* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] = ToFloat(from[i]);
}

template <typename T>
[[gnu::always_inline]] inline void Add(AnyCpu, const T* from, float* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] += ToFloat(from[i]);
}

template <typename T>
[[gnu::always_inline]] inline void Store(AnyCpu, const float* __restrict from, T* to, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] = FromFloat<T>(from[i]);
}

#ifdef __x86_64__

template <typename T>
[[gnu::always_inline]] inline void Load(Avx2, const T* from, float* __restrict to, int64_t count) {
  Load(AnyCpu(), from, to, count);
}

template <typename T>
[[gnu::always_inline]] inline void Add(Avx2, const T* from, float* __restrict to, int64_t count) {
  Add(AnyCpu(), from, to, count);
}

template <typename T>
[[gnu::always_inline]] inline void Store(Avx2, const float* __restrict from, T* to, int64_t count) {
  Store(AnyCpu(), from, to, count);
}

#define ZF_F16C __attribute__((target("avx2,f16c")))

ZF_F16C void Load(Avx2, const F16* from, float* __restrict to, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
  Load(AnyCpu(), from + i, to + i, count - i);
}

ZF_F16C void Add(Avx2, const F16* from, float* __restrict to, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 more = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
    _mm256_storeu_ps(to + i, _mm256_add_ps(_mm256_loadu_ps(to + i), more));
  }
  Add(AnyCpu(), from + i, to + i, count - i);
}

ZF_F16C void Store(Avx2, const float* __restrict from, F16* to, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  }
  Store(AnyCpu(), from + i, to + i, count - i);
}

#undef ZF_F16C
#endif

template <typename From, typename Isa, typename To>
[[gnu::always_inline]] inline void Sum(Isa isa, std::span<const void* const> contributions, To* to, int64_t count) {
  alignas(64) float total[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t block = std::min(kBlock, count - begin);
    Load(isa, static_cast<const From*>(contributions[0]) + begin, total, block);
    for (size_t i = 1; i < contributions.size(); i++) {
      Add(isa, static_cast<const From*>(contributions[i]) + begin, total, block);
    }
    Store(isa, total, to + begin, block);
  }
}

template <typename From, typename Isa>
[[gnu::always_inline]] inline void SumFrom(Isa isa, std::span<const void* const> contributions, void* to,
                                           DType to_dtype, int64_t count) {
  switch (to_dtype) {
    case DType::kF32: return Sum<From>(isa, contributions, static_cast<float*>(to), count);
    case DType::kBF16: return Sum<From>(isa, contributions, static_cast<BF16*>(to), count);
    case DType::kF16: return Sum<From>(isa, contributions, static_cast<F16*>(to), count);
  }
}

template <typename Isa>
[[gnu::always_inline]] inline void Dispatch(Isa isa, std::span<const void* const> contributions, DType dtype, void* to,
                                            DType to_dtype, int64_t count) {
  switch (dtype) {
    case DType::kF32: return SumFrom<float>(isa, contributions, to, to_dtype, count);
    case DType::kBF16: return SumFrom<BF16>(isa, contributions, to, to_dtype, count);
    case DType::kF16: return SumFrom<F16>(isa, contributions, to, to_dtype, count);
  }
}

void SumPortable(std::span<const void* const> contributions, DType dtype, void* to, DType to_dtype, int64_t count) {
  Dispatch(AnyCpu(), contributions, dtype, to, to_dtype, count);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) void SumAvx2(std::span<const void* const> contributions, DType dtype, void* to,
                                             DType to_dtype, int64_t count) {
  Dispatch(Avx2(), contributions, dtype, to, to_dtype, count);
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
