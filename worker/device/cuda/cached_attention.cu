// Attention to a cache of keys and values (cache_ops.h), as generation needs it: few new tokens, long caches.
//
// Legend: H heads of queries and G of keys and values, D their size. The cache is (G,capacity,D).
//
// A block of kWarps warps computes one head of one new token. Its warps take the keys in turns, a whole row of D
// elements at a time, and each keeps a running maximum, sum and weighted sum of values (Milakov and Gimelshein 2018).
// At the end these are combined in the order of the warps. Which warp takes a key depends on the key's position alone,
// and so does every bit.
//
// Estimate: each query head reads the keys and values of earlier tokens, 4D bytes per token in bf16: one token of
// gpt2-124m after 1,000 others reads 37 MB of them beside 250 MB of weights, 60 us in all on an H200. With one token
// and few heads most of the GPU is idle, and the rest waits for memory: a warp reads some 60 keys one after another, 40
// us a layer.
#include <cmath>

#include "base/check.h"
#include "worker/device/cuda/attention_tiled.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/dispatch.h"
#include "worker/device/cuda/reduce.cuh"
#include "worker/device/cuda/softmax.cuh"
#include "worker/device/cuda/vector.cuh"

namespace zerofleet::device::cuda {
namespace {

static_assert(kMaxHeadSize == 8 * kWarp);

constexpr int kWarps = 16, kCachedThreads = kWarps * kWarp, kAppendThreads = 128;

struct CachePlace {
  int64_t past, capacity;
  int heads, kv_heads, d;
};

// Copies a new token's keys and values behind those of earlier tokens.
template <typename T>
__global__ void __launch_bounds__(kAppendThreads) AppendKernel(CachePlace p, const T* qkv, T* keys, T* values) {
  const int64_t token = blockIdx.x, group = blockIdx.y;
  const T* const row = qkv + token * (p.heads + 2 * p.kv_heads) * p.d + (p.heads + group) * p.d;
  const int64_t to = (group * p.capacity + p.past + token) * p.d;
  for (int i = static_cast<int>(threadIdx.x); i < p.d; i += kAppendThreads) {
    keys[to + i] = row[i];
    values[to + i] = row[p.kv_heads * p.d + i];
  }
}

// Each lane holds at most kEach elements of a head.
template <typename T, int kEach>
__global__ void __launch_bounds__(kCachedThreads)
    CachedAttentionKernel(CachePlace p, float scale, const T* qkv, const T* keys, const T* values, T* out) {
  __shared__ float maxima[kWarps], sums[kWarps], weighted[kWarps][kEach * kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t token = blockIdx.x, head = blockIdx.y, seen = p.past + token + 1;
  const int64_t cached = head / (p.heads / p.kv_heads) * p.capacity * p.d;
  const T* const query = qkv + token * (p.heads + 2 * p.kv_heads) * p.d + head * p.d;
  float q[kEach], of_values[kEach];
  for (int j = 0; j < kEach; ++j) {
    const int i = lane + j * kWarp;
    q[j] = i < p.d ? Widen(query[i]) * scale : 0.0f;
    of_values[j] = 0;
  }
  MaximumAndSum softmax;
  for (int64_t key = warp; key < seen; key += kWarps) {
    const int64_t at = cached + key * p.d;
    float dot = 0;
    for (int j = 0; j < kEach; ++j) {
      const int i = lane + j * kWarp;
      if (i < p.d) dot = std::fmaf(q[j], Widen(keys[at + i]), dot);
    }
    const float score = WarpSum(dot);
    const float maximum = score > softmax.maximum ? score : softmax.maximum;
    const float shrink = Exp(softmax.maximum - maximum), weight = Exp(score - maximum);
    softmax = {maximum, std::fmaf(softmax.sum, shrink, weight)};
    for (int j = 0; j < kEach; ++j) {
      const int i = lane + j * kWarp;
      if (i < p.d) of_values[j] = std::fmaf(of_values[j], shrink, weight * Widen(values[at + i]));
    }
  }
  if (lane == 0) {
    maxima[warp] = softmax.maximum;
    sums[warp] = softmax.sum;
  }
  for (int j = 0; j < kEach; ++j) weighted[warp][lane + j * kWarp] = of_values[j];
  SyncThreads();
  float maximum = maxima[0], sum = 0;
  for (int w = 1; w < kWarps; ++w) maximum = maxima[w] > maximum ? maxima[w] : maximum;
  for (int w = 0; w < kWarps; ++w) sum = std::fmaf(sums[w], Exp(maxima[w] - maximum), sum);
  for (int i = static_cast<int>(threadIdx.x); i < p.d; i += kCachedThreads) {
    float value = 0;
    for (int w = 0; w < kWarps; ++w) value = std::fmaf(weighted[w][i], Exp(maxima[w] - maximum), value);
    out[(token * p.heads + head) * p.d + i] = Narrow<T>(value / sum);
  }
}

}  // namespace

void CudaOps::CachedAttention(Stream& stream, const CachedAttentionArguments& p) {
  const AttentionShape& s = p.shape;
  ZF_CHECK(s.batch == 1 && p.past >= 0 && p.past + s.time <= p.capacity && s.head_size <= kMaxHeadSize);
  const CachePlace place{p.past, p.capacity, static_cast<int>(s.heads), static_cast<int>(s.kv_heads),
                         static_cast<int>(s.head_size)};
  const auto tokens = static_cast<unsigned>(s.time);
  WithType(p.qkv.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* const qkv = static_cast<const T*>(p.qkv.data);
    T* const keys = static_cast<T*>(p.keys.data);
    T* const values = static_cast<T*>(p.values.data);
    Launch(stream, "CachedAttention", AppendKernel<T>, {tokens, static_cast<unsigned>(s.kv_heads)}, kAppendThreads, 0,
           place, qkv, keys, values);
    if (!p.out) return;
    const auto attend = [&](auto kernel) {
      Launch(stream, "CachedAttention", kernel, {tokens, static_cast<unsigned>(s.heads)}, kCachedThreads, 0, place,
             1.0f / std::sqrt(static_cast<float>(s.head_size)), qkv, keys, values, static_cast<T*>(p.out.data));
    };
    if (s.head_size <= 2 * kWarp) {
      attend(CachedAttentionKernel<T, 2>);
    } else if (s.head_size <= 4 * kWarp) {
      attend(CachedAttentionKernel<T, 4>);
    } else {
      attend(CachedAttentionKernel<T, 8>);
    }
  });
}

}  // namespace zerofleet::device::cuda
