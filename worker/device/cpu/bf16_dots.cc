// See bf16_dots.h.
#include "worker/device/cpu/bf16_dots.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "worker/device/cpu/bf16_vectors.h"
#include "worker/device/cpu/matmul_primitive.h"

namespace zerofleet::device::bf16_dots {

bool Available() { return ZF_HAS_BF16_CODE && HasBF16Instructions() && !HasAmx(); }

}  // namespace zerofleet::device::bf16_dots

#if ZF_HAS_BF16_CODE
ZF_BEGIN_BF16_CODE
namespace zerofleet::device::bf16_dots {
namespace {

constexpr int64_t kChunkVectors = kChunkLanes / kLanes;

// How many rows ahead packing fetches; the processor's own prefetching stops at the end of a row. Harmless behind the
// last one.
constexpr int64_t kRowsAhead = 16;

// From this many pairs on, a product takes long enough to fetch beforehand what it adds to or writes.
constexpr int64_t kManyPairs = 64;

// Computes kRows rows of kVectors vectors, the first at `column`, with all their sums in registers.
template <int kRows, int kVectors>
void MultiplyChunk(const Product& p, int64_t column) {
  const int64_t c_row = p.c_row;
  float* const c = p.c + column;
  const uint32_t* b = p.b + column / kChunkLanes * p.b_chunk;
  const bool many = p.pairs >= kManyPairs, fetch = p.add && many;
  __m512 sums[kRows][kVectors];
  HWY_UNROLL(8)
  for (int row = 0; row < kRows; ++row) {
    HWY_UNROLL(8)
    for (int vector = 0; vector < kVectors; ++vector) {
      sums[row][vector] = _mm512_setzero_ps();
      if (fetch) _mm_prefetch(c + row * c_row + vector * kLanes, _MM_HINT_T0);
    }
    if (many && p.rounded != nullptr) {
      const BF16* const rounded = p.rounded + row * p.rounded_row + column;
      _mm_prefetch(rounded, _MM_HINT_T0);
      _mm_prefetch(rounded + 2 * kLanes, _MM_HINT_T0);
    }
  }
  const uint32_t* a = p.a;
  for (int64_t pair = 0; pair < p.pairs; ++pair, a += p.a_pair, b += kChunkLanes) {
    __m512i columns[kVectors];
    HWY_UNROLL(8)
    for (int vector = 0; vector < kVectors; ++vector) columns[vector] = _mm512_loadu_si512(b + vector * kLanes);
    HWY_UNROLL(8)
    for (int row = 0; row < kRows; ++row) {
      const __m512i each = _mm512_set1_epi32(static_cast<int>(a[row * p.a_row]));
      HWY_UNROLL(8)
      for (int vector = 0; vector < kVectors; ++vector) {
        sums[row][vector] = AddDots(sums[row][vector], each, columns[vector]);
      }
    }
  }
  HWY_UNROLL(8)
  for (int row = 0; row < kRows; ++row) {
    HWY_UNROLL(8)
    for (int vector = 0; vector < kVectors; ++vector) {
      float* const to = c + row * c_row + vector * kLanes;
      if (p.add) sums[row][vector] = _mm512_add_ps(sums[row][vector], _mm512_loadu_ps(to));
      if (p.rounded == nullptr) {
        _mm512_storeu_ps(to, sums[row][vector]);
      } else {
        BF16* const rounded = p.rounded + row * p.rounded_row + column + vector * kLanes;
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(rounded), RoundToBF16(sums[row][vector]));
      }
    }
  }
}

using ChunkFunction = void (*)(const Product&, int64_t column);

template <int... kIndex>
constexpr std::array<ChunkFunction, sizeof...(kIndex)> ChunkFunctions(std::integer_sequence<int, kIndex...>) {
  return {&MultiplyChunk<kIndex / kChunkVectors + 1, kIndex % kChunkVectors + 1>...};
}
constexpr auto kChunkFunctions = ChunkFunctions(std::make_integer_sequence<int, kStripRows * kChunkVectors>());

// Transposes 16 rows of 16 words by exchanging halves of ever larger blocks.
void Transpose(__m512i (&rows)[kLanes]) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (int block = 1; block < kLanes; block *= 2) {
    const __mmask16 second = _mm512_test_epi32_mask(lane, _mm512_set1_epi32(block));
    const __m512i low = _mm512_mask_add_epi32(lane, second, lane, _mm512_set1_epi32(16 - block));
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(block));
    for (int row = 0; row < kLanes; ++row) {
      if (row & block) continue;
      const __m512i upper = rows[row], lower = rows[row + block];
      rows[row] = _mm512_permutex2var_epi32(upper, low, lower);
      rows[row + block] = _mm512_permutex2var_epi32(upper, high, lower);
    }
  }
}

}  // namespace

void Multiply(const Product& p) {
  ZF_CHECK(p.rows >= 1 && p.rows <= kStripRows && p.columns % kLanes == 0);
  for (int64_t column = 0; column < p.columns; column += kChunkLanes) {
    const int64_t vectors = std::min(kChunkVectors, (p.columns - column) / kLanes);
    kChunkFunctions[(p.rows - 1) * kChunkVectors + vectors - 1](p, column);
  }
}

void PackRows(int64_t rows, int64_t columns, const BF16* from, int64_t stride, uint32_t* to) {
  const int64_t pairs = columns / 2;
  for (int64_t first = 0; first < rows; first += kChunkLanes, to += pairs * kChunkLanes) {
    for (int64_t lane = 0; lane < kChunkLanes; lane += kLanes) {
      for (int64_t pair = 0; pair < pairs; pair += kLanes) {
        const __mmask16 there = FirstLanes(pairs - pair);
        for (int64_t row = 0; row < kLanes; ++row) {
          _mm_prefetch(from + (first + lane + kRowsAhead + row) * stride + 2 * pair, _MM_HINT_T0);
        }
        __m512i block[kLanes];
        for (int64_t row = 0; row < kLanes; ++row) {
          const int64_t at = first + lane + row;
          block[row] =
              at < rows ? _mm512_maskz_loadu_epi32(there, from + at * stride + 2 * pair) : _mm512_setzero_si512();
        }
        Transpose(block);
        for (int64_t i = 0; i < std::min(kLanes, pairs - pair); ++i) {
          _mm512_storeu_si512(to + (pair + i) * kChunkLanes + lane, block[i]);
        }
      }
    }
  }
}

void PackPairsOfRows(int64_t rows, int64_t columns, const BF16* from, int64_t stride, uint32_t* to) {
  const int64_t chunk = CeilDivide(rows, 2) * kChunkLanes;
  for (int64_t row = 0; row < rows; row += 2, to += kChunkLanes) {
    const BF16* const values = from + row * stride;
    for (int64_t n = 0; n < columns; n += kLanes) {
      const __mmask16 there = FirstLanes(columns - n);
      const __m256i one = _mm256_maskz_loadu_epi16(there, values + n);
      const __m256i other =
          row + 1 < rows ? _mm256_maskz_loadu_epi16(there, values + stride + n) : _mm256_setzero_si256();
      _mm_prefetch(values + kRowsAhead * stride + n, _MM_HINT_T0);
      _mm_prefetch(values + (kRowsAhead + 1) * stride + n, _MM_HINT_T0);
      _mm512_storeu_si512(to + n / kChunkLanes * chunk + n % kChunkLanes, PairUp(one, other));
    }
  }
}

}  // namespace zerofleet::device::bf16_dots
ZF_END_BF16_CODE

#else
namespace zerofleet::device::bf16_dots {

void Multiply(const Product&) { ZF_CHECK(false); }
void PackRows(int64_t, int64_t, const BF16*, int64_t, uint32_t*) { ZF_CHECK(false); }
void PackPairsOfRows(int64_t, int64_t, const BF16*, int64_t, uint32_t*) { ZF_CHECK(false); }

}  // namespace zerofleet::device::bf16_dots
#endif
