// Attention to a cache of keys and values (cache_ops.h). One task is one head of one new token: a product with the
// keys, a softmax, and a weighted sum of the values, which read the cache in place.
#include <cmath>

#include "base/check.h"
#include "base/units.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/kernels.h"

namespace zerofleet::device {
namespace {

// Copies one head of each new token's keys or values, which is `section` heads from the beginning of the token's row,
// behind those of earlier tokens.
void AppendHead(const CachedAttentionArguments& p, int64_t section, Tensor to) {
  const int64_t d = p.shape.head_size;
  for (int64_t t = 0; t < p.shape.time; ++t) {
    kernels::Convert(d, p.qkv.Offset(t * p.shape.columns() + section * d), to.Offset((p.past + t) * d));
  }
}

void AttendOne(const CachedAttentionArguments& p, int64_t token, int64_t head, float* scores) {
  const int64_t d = p.shape.head_size, seen = p.past + token + 1;
  const int64_t cached = head / (p.shape.heads / p.shape.kv_heads) * p.capacity * d;
  kernels::RowDots(seen, d, p.qkv.Offset(token * p.shape.columns() + head * d), p.keys.Offset(cached), scores);
  kernels::SoftmaxRow(seen, 1.0f / std::sqrt(static_cast<float>(d)), scores);
  float* const out = scores + RoundUp(p.capacity, 16);
  kernels::WeightedRows(seen, d, scores, p.values.Offset(cached), out);
  kernels::Convert(d, {out, DType::kF32}, p.out.Offset((token * p.shape.heads + head) * d));
}

}  // namespace

void CpuOps::CachedAttention(Stream&, const CachedAttentionArguments& p) {
  const AttentionShape& s = p.shape;
  ZF_CHECK(s.batch == 1 && p.past >= 0 && p.past + s.time <= p.capacity);
  const auto append = [&](int64_t group, int) {
    const int64_t at = group * p.capacity * s.head_size;
    AppendHead(p, s.heads + group, p.keys.Offset(at));
    AppendHead(p, s.heads + s.kv_heads + group, p.values.Offset(at));
  };
  if (s.time == 1) {
    for (int64_t group = 0; group < s.kv_heads; ++group) append(group, 0);
  } else {
    pool_.Run(s.kv_heads, append);
  }
  if (!p.out) return;
  // A thread's share of the scratch has room for a tile of scores, of which this uses one row, and for whole heads.
  const int64_t floats = RoundUp(p.capacity, 16) + RoundUp(s.head_size, 16);
  ZF_CHECK(pool_.threads() * floats * static_cast<int64_t>(sizeof(float)) <=
           AttentionScratchBytes({1, p.capacity, s.heads, s.head_size, s.kv_heads}));
  pool_.Run(s.time * s.heads, [&](int64_t index, int thread) {
    AttendOne(p, index / s.heads, index % s.heads, static_cast<float*>(p.scratch) + thread * floats);
  });
}

}  // namespace zerofleet::device
