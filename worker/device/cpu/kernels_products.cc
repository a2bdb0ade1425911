// Products of one vector with a matrix (kernels.h): its dot products with the rows, and the rows' sum weighted by it.
// Such a product reads the matrix once, so memory bandwidth limits it.
#include "worker/device/cpu/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/device/cpu/kernels_products.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "worker/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zerofleet::device::kernels::HWY_NAMESPACE {

constexpr int64_t kPrefetchBytes = 2048;  // how far ahead of the reads to prefetch, also into the next rows

// Two bf16 side by side are one 32-bit lane: the first in its lower half, the second in its upper half.
using PairVec = hn::Vec<hn::RebindToUnsigned<FloatTag>>;
HWY_INLINE PairVec LoadPairs(const BF16* from) {
  return hn::LoadU(hn::RebindToUnsigned<FloatTag>(), reinterpret_cast<const uint32_t*>(from));
}
// Targets without vector instructions do not load pairs.
constexpr bool kHasPairs = HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128;
HWY_INLINE FloatVec FirstOfPairs(PairVec pairs) { return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(pairs)); }
HWY_INLINE FloatVec SecondOfPairs(PairVec pairs) {
  return hn::BitCast(FloatTag(), hn::And(pairs, hn::Set(hn::RebindToUnsigned<FloatTag>(), 0xffff0000u)));
}

// Elements are read in order, one row after another, which the hardware's prefetching follows best.
template <typename T>
HWY_INLINE FloatVec RestOfDot(int64_t begin, int64_t k, const T* x, const T* row, FloatVec sum) {
  ForVectors(k - begin, [&](int64_t i, int64_t lanes) HWY_ATTR {
    sum = hn::MulAdd(Read(x + begin + i, lanes), Read(row + begin + i, lanes), sum);
  });
  return sum;
}

template <typename T>
HWY_INLINE FloatVec RowDot(int64_t k, const T* x, const T* row) {
  const int64_t step = 2 * FloatLanes(), end = k / step * step;
  auto first = hn::Zero(FloatTag()), second = first;
  for (int64_t i = 0; i < end; i += step) {
    hwy::Prefetch(row + i + kPrefetchBytes / static_cast<int64_t>(sizeof(T)));
    first = hn::MulAdd(Load(x + i), Load(row + i), first);
    second = hn::MulAdd(Load(x + i + step / 2), Load(row + i + step / 2), second);
  }
  return RestOfDot(end, k, x, row, hn::Add(first, second));
}

// One load and two instructions give two vectors of a row's elements; with conversions it takes two loads and four
// instructions.
HWY_INLINE FloatVec RowDot(int64_t k, const BF16* x, const BF16* row) {
  const int64_t step = 4 * FloatLanes(), half = step / 2, end = kHasPairs ? k / step * step : 0;
  auto sum0 = hn::Zero(FloatTag()), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  for (int64_t i = 0; i < end; i += step) {
    hwy::Prefetch(row + i + kPrefetchBytes / 2);
    hwy::Prefetch(row + i + kPrefetchBytes / 2 + half);
    const auto v = LoadPairs(x + i), pairs = LoadPairs(row + i);
    sum0 = hn::MulAdd(FirstOfPairs(v), FirstOfPairs(pairs), sum0);
    sum1 = hn::MulAdd(SecondOfPairs(v), SecondOfPairs(pairs), sum1);
    const auto next_v = LoadPairs(x + i + half), next_pairs = LoadPairs(row + i + half);
    sum2 = hn::MulAdd(FirstOfPairs(next_v), FirstOfPairs(next_pairs), sum2);
    sum3 = hn::MulAdd(SecondOfPairs(next_v), SecondOfPairs(next_pairs), sum3);
  }
  return RestOfDot(end, k, x, row, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3)));
}

void RowDotsImpl(int64_t rows, int64_t k, Tensor x, Tensor w, float* y) {
  WithType(x, [&](const auto* vector) HWY_ATTR {
    const auto* matrix = static_cast<decltype(vector)>(w.data);
    for (int64_t row = 0; row < rows; ++row) y[row] = Sum(RowDot(k, vector, matrix + row * k));
  });
}

// Computes columns [0, return value) of y, two vectors at a time or more.
HWY_INLINE int64_t PairedColumns(int64_t rows, int64_t k, const float* weights, const BF16* w, float* y) {
  const FloatTag d;
  const int64_t step = 4 * FloatLanes(), half = step / 2, end = kHasPairs ? k / step * step : 0;
  for (int64_t i = 0; i < end; i += step) {
    auto sum0 = hn::Zero(d), sum1 = hn::Zero(d), sum2 = hn::Zero(d), sum3 = hn::Zero(d);
    for (int64_t row = 0; row < rows; ++row) {
      const auto weight = hn::Set(d, weights[row]);
      const auto low = LoadPairs(w + row * k + i), high = LoadPairs(w + row * k + i + half);
      sum0 = hn::MulAdd(weight, FirstOfPairs(low), sum0);
      sum1 = hn::MulAdd(weight, SecondOfPairs(low), sum1);
      sum2 = hn::MulAdd(weight, FirstOfPairs(high), sum2);
      sum3 = hn::MulAdd(weight, SecondOfPairs(high), sum3);
    }
    hn::StoreInterleaved2(sum0, sum1, d, y + i);
    hn::StoreInterleaved2(sum2, sum3, d, y + i + half);
  }
  return end;
}
template <typename T>
HWY_INLINE int64_t PairedColumns(int64_t rows, int64_t k, const float* weights, const T* w, float* y) {
  const FloatTag d;
  const int64_t lanes = FloatLanes(), end = k / (2 * lanes) * (2 * lanes);
  for (int64_t i = 0; i < end; i += 2 * lanes) {
    auto sum0 = hn::Zero(d), sum1 = hn::Zero(d);
    for (int64_t row = 0; row < rows; ++row) {
      const auto weight = hn::Set(d, weights[row]);
      sum0 = hn::MulAdd(weight, Load(w + row * k + i), sum0);
      sum1 = hn::MulAdd(weight, Load(w + row * k + i + lanes), sum1);
    }
    Store(sum0, y + i);
    Store(sum1, y + i + lanes);
  }
  return end;
}

void WeightedRowsImpl(int64_t rows, int64_t k, const float* weights, Tensor w, float* y) {
  const FloatTag d;
  WithType(w, [&](const auto* matrix) HWY_ATTR {
    const int64_t first = PairedColumns(rows, k, weights, matrix, y);
    ForVectors(k - first, [&](int64_t i, int64_t lanes) HWY_ATTR {
      auto sum = hn::Zero(d);
      for (int64_t row = 0; row < rows; ++row) {
        sum = hn::MulAdd(hn::Set(d, weights[row]), Read(matrix + row * k + first + i, lanes), sum);
      }
      Write(sum, y + first + i, lanes);
    });
  });
}

}  // namespace zerofleet::device::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zerofleet::device::kernels {

HWY_EXPORT(RowDotsImpl);
HWY_EXPORT(WeightedRowsImpl);

void RowDots(int64_t rows, int64_t k, Tensor x, Tensor w, float* y) {
  HWY_DYNAMIC_DISPATCH(RowDotsImpl)(rows, k, x, w, y);
}
void WeightedRows(int64_t rows, int64_t k, const float* weights, Tensor w, float* y) {
  HWY_DYNAMIC_DISPATCH(WeightedRowsImpl)(rows, k, weights, w, y);
}

}  // namespace zerofleet::device::kernels
#endif  // HWY_ONCE
