// The softmax of a row of logits, one block per row: over the whole vocabulary (cross_entropy.cu) or a part of it
// (vocabulary.cu).
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_SOFTMAX_CUH_
#define ZEROFLEET_WORKER_DEVICE_CUDA_SOFTMAX_CUH_

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "base/units.h"
#include "worker/device/cuda/launch.cuh"
#include "worker/device/cuda/vector.cuh"
#include "worker/device/element_math.h"

namespace zerofleet::device::cuda {

// Elements per row of logits, padding included: a multiple of kStrideUnit, since vocabulary sizes are odd and products
// run at full rate on aligned rows only.
inline int64_t LogitsStride(int64_t vocab) {
  constexpr int64_t kStrideUnit = 64;
  return RoundUp(vocab, kStrideUnit);
}

// The offset in bytes, in the scratch for a part of the vocabulary, of the gradient in a type narrower than fp32:
// behind the logits.
inline int64_t PartGradientAt(int64_t rows, int64_t vocab) {
  return rows * LogitsStride(vocab) * static_cast<int64_t>(sizeof(float));
}

// The largest block there is: with fewer rows in flight, the second read of a row is more likely to hit the cache.
inline constexpr int kRowThreads = 1024;
static_assert(kRowThreads / kWarp == kWarp, "one lane for each warp of the block");

// Logits per thread in one access of 16 bytes.
template <typename T>
inline constexpr int kLogitLanes = 16 / static_cast<int>(sizeof(T));

__device__ inline float Exp(float x) { return element::FloatMath::Exp(x); }

// `sum` is the sum of exp(logit - maximum) over some logits. With no logits the maximum is the lowest finite float and
// not -infinity, whose difference with itself would be a NaN. A NaN among the logits leaves the maximum alone and makes
// the sum NaN.
struct MaximumAndSum {
  float maximum = -FLT_MAX, sum = 0;
};

// Combines two of them. Gives the same bits in either order of arguments, so that all lanes of a warp agree.
__device__ inline MaximumAndSum Together(const MaximumAndSum& a, const MaximumAndSum& b) {
  const bool a_larger = a.maximum > b.maximum;
  const MaximumAndSum &larger = a_larger ? a : b, &smaller = a_larger ? b : a;
  return {larger.maximum, std::fmaf(smaller.sum, Exp(smaller.maximum - larger.maximum), larger.sum)};
}

// Combines the values of all threads of the block and returns the result to all of them.
__device__ inline MaximumAndSum OfBlock(MaximumAndSum mine) {
  __shared__ float maxima[kWarp], sums[kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    mine = Together(mine, {ShuffleXor(mine.maximum, lanes), ShuffleXor(mine.sum, lanes)});
  }
  if (lane == 0) {
    maxima[warp] = mine.maximum;
    sums[warp] = mine.sum;
  }
  SyncThreads();
  MaximumAndSum all = {maxima[lane], sums[lane]};
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    all = Together(all, {ShuffleXor(all.maximum, lanes), ShuffleXor(all.sum, lanes)});
  }
  return all;
}

// Calls body(first, logits) for each group of neighbouring logits that is this thread's share of the row. A row
// starts at a multiple of 16 bytes and ends with padding to a whole group. Past the vocabulary the logits are -inf,
// whatever the padding holds.
template <typename T, typename Body>
__device__ void ForEachGroup(int vocab, const T* row, const Body& body) {
  constexpr int kLanes = kLogitLanes<T>, kStep = kRowThreads * kLanes;
  for (int first = static_cast<int>(threadIdx.x) * kLanes; first < vocab; first += kStep) {
    float logits[kLanes];
    Lanes<kLanes, T>::Load(row + first, logits);
    if (first + kLanes > vocab) {
      for (int lane = 0; lane < kLanes; ++lane) logits[lane] = first + lane < vocab ? logits[lane] : -INFINITY;
    }
    body(first, logits);
  }
}

template <typename T>
__device__ MaximumAndSum OfThread(int vocab, const T* row) {
  MaximumAndSum mine;
  ForEachGroup(vocab, row, [&](int, const float(&logits)[kLogitLanes<T>]) {
    float maximum = mine.maximum;
    for (const float logit : logits) maximum = logit > maximum ? logit : maximum;
    if (maximum > mine.maximum) {
      mine.sum *= Exp(mine.maximum - maximum);
      mine.maximum = maximum;
    }
    for (const float logit : logits) mine.sum += Exp(logit - maximum);
  });
  return mine;
}

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_SOFTMAX_CUH_
