// See attention_bf16.h.
#include "worker/device/cpu/attention_bf16.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "worker/device/cpu/attention_head.h"
#include "worker/device/cpu/bf16_dots.h"
#include "worker/device/cpu/bf16_vectors.h"

namespace zerofleet::device::bf16_attention {
namespace {

using bf16_dots::kChunkLanes;
using bf16_dots::kLanes;
using bf16_dots::kStripRows;

// Queries whose gradients of keys and values are added at once: a multiple of a strip, and even.
constexpr int64_t kTileRows = 8 * kStripRows;

// Parts of the scratch, in words of 4 bytes. A row of scores has room for every key and a vector of zeros behind them;
// it is no multiple of a page's size, whose lines would share a few sets of the cache.
struct Parts {
  int64_t keys, row;
  int64_t packed, pairs, tile_pairs, strip, rounded_strip, out, tile_rounded, head;

  explicit Parts(const AttentionShape& s)
      : keys(RoundUp(s.time, kChunkLanes)),
        row(keys + 2 * kLanes),
        packed(keys * s.head_size / 2),
        pairs(keys / 2 * RoundUp(s.head_size, kChunkLanes)),
        tile_pairs(kTileRows / 2 * RoundUp(s.head_size, kChunkLanes)),
        strip(kStripRows * row),
        rounded_strip(kStripRows * row / 2),
        out(kStripRows * s.head_size),
        tile_rounded(kTileRows / 2 * row),
        head(keys * s.head_size) {}

  int64_t forward() const { return packed + pairs + strip + rounded_strip + out; }
  int64_t backward() const {
    return 2 * packed + pairs + 2 * tile_pairs + 2 * strip + rounded_strip + out + 2 * tile_rounded + 2 * head;
  }
};

class Scratch {
 public:
  explicit Scratch(void* at) : at_(static_cast<uint32_t*>(at)) {}
  uint32_t* Words(int64_t count) { return std::exchange(at_, at_ + count); }
  float* Floats(int64_t count) { return reinterpret_cast<float*>(Words(count)); }

 private:
  uint32_t* at_;
};

}  // namespace

bool Takes(const AttentionShape& shape) { return shape.head_size % kLanes == 0 && bf16_dots::Available(); }

int64_t ScratchBytes(const AttentionShape& shape) {
  const Parts parts(shape);
  return RoundUp(4 * std::max(parts.forward(), parts.backward()), 64);
}

}  // namespace zerofleet::device::bf16_attention

#if ZF_HAS_BF16_CODE
ZF_BEGIN_BF16_CODE
namespace zerofleet::device::bf16_attention {
namespace {

// 2^x within 2e-7 relative; 0 below -126. A NaN stays one.
HWY_INLINE __m512 Exp2(__m512 x) {
  const __m512 bounded = _mm512_max_ps(_mm512_set1_ps(-200.0f), x);  // in this order NaN passes
  const __m512 whole = _mm512_roundscale_ps(bounded, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 f = _mm512_sub_ps(bounded, whole);
  // The polynomial of degree 5 with the smallest maximal relative error in [-1/2, 1/2].
  __m512 power = _mm512_set1_ps(0.00132764736f);
  for (const float coefficient : {0.00967554188f, 0.05550713274f, 0.24022119714f, 0.69314696706f, 1.00000007166f}) {
    power = _mm512_fmadd_ps(power, f, _mm512_set1_ps(coefficient));
  }
  return _mm512_scalef_ps(power, whole);
}

// The lanes of the vector at `at` that are in [first, end).
HWY_INLINE __mmask16 LanesIn(int64_t at, int64_t first, int64_t end) {
  return static_cast<__mmask16>(FirstLanes(end - at) & ~FirstLanes(first - at));
}

// The positions that a row sees.
struct Seen {
  int64_t first, end;
};

// What a strip of queries has to do with: rows first to first + rows - 1, and keys begin to end - 1. `begin` is a
// multiple of kChunkLanes, `end` of kLanes.
struct Strip {
  int64_t first, rows, begin, end;
  int64_t keys() const { return end - begin; }
};

// The strip at row `first` of rows that end before `rows_end`.
Strip StripAt(int64_t first, int64_t rows_end, int64_t first_seen) {
  const int64_t rows = std::min(kStripRows, rows_end - first);
  return {first, rows, RoundDown(first_seen, kChunkLanes), RoundUp(first + rows, kLanes)};
}

// With e = 2^(factor * (score - the largest score)): writes e to `probabilities`, 0 where the row sees nothing, and
// returns the logarithm of the sum to base 2 of 2^(factor * score), and the sum of e.
struct SoftmaxSums {
  float logsumexp2, sum;
};
SoftmaxSums Softmax(const Strip& strip, Seen seen, float factor, const float* scores, BF16* probabilities) {
  const int64_t first = std::max(strip.begin, RoundDown(seen.first, kLanes));
  const __m512 lowest = _mm512_set1_ps(-HUGE_VALF);
  __m512 largest = lowest;
  for (int64_t at = first; at < seen.end; at += kLanes) {
    const __mmask16 lanes = LanesIn(at, seen.first, seen.end);
    largest = _mm512_max_ps(largest, _mm512_mask_loadu_ps(lowest, lanes, scores + at));
  }
  const float shift = factor * OverLanes<MaxOf>(largest);
  const __m512 scale = _mm512_set1_ps(factor), offset = _mm512_set1_ps(shift);
  __m512 sum = _mm512_setzero_ps();
  for (int64_t at = strip.begin; at < strip.end; at += kLanes) {
    const __mmask16 lanes = LanesIn(at, seen.first, seen.end);
    const __m512 e = _mm512_maskz_mov_ps(lanes, Exp2(_mm512_fmsub_ps(scale, _mm512_loadu_ps(scores + at), offset)));
    sum = _mm512_add_ps(sum, e);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(probabilities + at), RoundToBF16(e));
  }
  const float total = OverLanes<SumOf>(sum);
  return {shift + std::log2(total), total};
}

void StoreScaled(int64_t count, float factor, const float* from, BF16* to) {
  const __m512 scale = _mm512_set1_ps(factor);
  for (int64_t i = 0; i < count; i += kLanes) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i),
                        RoundToBF16(_mm512_mul_ps(scale, _mm512_loadu_ps(from + i))));
  }
}

// The sum over i of a[i] b[i].
float Dot(int64_t count, const BF16* a, const BF16* b) {
  __m512 sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < count; i += 2 * kLanes) {
    const __mmask16 pairs = FirstLanes((count - i) / 2);
    sum = AddDots(sum, _mm512_maskz_loadu_epi32(pairs, a + i), _mm512_maskz_loadu_epi32(pairs, b + i));
  }
  return OverLanes<SumOf>(sum);
}

const uint32_t* AsPairs(const BF16* values) { return reinterpret_cast<const uint32_t*>(values); }

// Fetches the next head's part of a row, which lies behind this one's. Rows are far apart, so that the processor's own
// prefetching does not follow. Harmless behind the last head.
HWY_INLINE void FetchNext(const BF16* row, int64_t head_size) {
  for (int64_t i = 0; i < head_size; i += 2 * kLanes) _mm_prefetch(row + head_size + i, _MM_HINT_T1);
}

BF16* At(Tensor tensor, int64_t offset) { return static_cast<BF16*>(tensor.data) + offset; }

// scores(rows, keys) = x y^T, x the strip's rows, y packed by PackRows; scores are indexed by the key.
void Scores(const AttentionShape& s, const Strip& strip, const BF16* x, int64_t stride, const uint32_t* packed,
            float* scores, int64_t row) {
  const int64_t chunk = s.head_size / 2 * kChunkLanes;
  bf16_dots::Multiply({.rows = strip.rows,
                       .columns = strip.keys(),
                       .pairs = s.head_size / 2,
                       .a = AsPairs(x),
                       .a_row = stride / 2,
                       .a_pair = 1,
                       .b = packed + strip.begin / kChunkLanes * chunk,
                       .b_chunk = chunk,
                       .c = scores + strip.begin,
                       .c_row = row});
}

// out(rows, D) = w y, w(rows, keys) in bf16 and indexed by the key, y packed by PackPairsOfRows.
void Weighted(const AttentionShape& s, const Strip& strip, const BF16* w, int64_t row, const uint32_t* pairs,
              float* out) {
  bf16_dots::Multiply({.rows = strip.rows,
                       .columns = s.head_size,
                       .pairs = (RoundUp(strip.first + strip.rows, 2) - strip.begin) / 2,
                       .a = AsPairs(w) + strip.begin / 2,
                       .a_row = row / 2,
                       .a_pair = 1,
                       .b = pairs + strip.begin / 2 * kChunkLanes,
                       .b_chunk = CeilDivide(s.time, 2) * kChunkLanes,
                       .c = out,
                       .c_row = s.head_size});
}

// A tile of queries, whose weights are kept as pairs of rows: word r / 2 * row + key for row r.
struct Tile {
  int64_t first, rows, begin;
};

// gradient(keys, D) += w^T x for the tile's weights w and its rows x, packed by PackPairsOfRows.
void AddTransposed(const AttentionShape& s, const Tile& tile, const uint32_t* w, int64_t row, const uint32_t* x,
                   float* gradient) {
  const int64_t pairs = CeilDivide(tile.rows, 2), end = tile.first + tile.rows;
  for (int64_t key = tile.begin; key < end; key += kStripRows) {
    const int64_t skipped = std::max<int64_t>(0, (key - tile.first) / 2);  // queries before the key
    bf16_dots::Multiply({.rows = std::min(kStripRows, end - key),
                         .columns = s.head_size,
                         .pairs = pairs - skipped,
                         .a = w + skipped * row + key,
                         .a_row = 1,
                         .a_pair = row,
                         .b = x + skipped * kChunkLanes,
                         .b_chunk = pairs * kChunkLanes,
                         .c = gradient + key * s.head_size,
                         .c_row = s.head_size,
                         .add = true});
  }
}

// What a row needs to turn scores into probabilities, and their gradient into the scores'.
struct RowGradient {
  Seen seen = {0, 0};  // nothing: all is 0
  float logsumexp2 = 0, delta = 0;
  const float *scores = nullptr, *dp = nullptr;
};

struct Rounded {
  __m256i p, ds;
};
HWY_INLINE Rounded GradientVector(const RowGradient& row, int64_t at, float scale, float factor) {
  const __mmask16 lanes = LanesIn(at, row.seen.first, row.seen.end);
  if (lanes == 0) return {_mm256_setzero_si256(), _mm256_setzero_si256()};
  const __m512 exponent = _mm512_fmsub_ps(_mm512_set1_ps(factor), _mm512_maskz_loadu_ps(lanes, row.scores + at),
                                          _mm512_set1_ps(row.logsumexp2));
  const __m512 p = _mm512_maskz_mov_ps(lanes, Exp2(exponent));
  const __m512 centred = _mm512_sub_ps(_mm512_maskz_loadu_ps(lanes, row.dp + at), _mm512_set1_ps(row.delta));
  const __m512 ds = _mm512_maskz_mul_ps(lanes, _mm512_mul_ps(p, centred), _mm512_set1_ps(scale));
  return {RoundToBF16(p), RoundToBF16(ds)};
}

void StoreHalves(__m256i halves, BF16* to) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), halves); }

}  // namespace

void ForwardHead(const AttentionForwardArguments& p, int64_t sequence, int64_t number, void* memory) {
  const AttentionShape& s = p.shape;
  const AttentionHead head{s, sequence, number};
  const Parts parts(s);
  const int64_t d = s.head_size, stride = s.columns();
  Scratch scratch(memory);
  uint32_t *const keys = scratch.Words(parts.packed), *const values = scratch.Words(parts.pairs);
  float* const scores = scratch.Floats(parts.strip);
  BF16* const probabilities = reinterpret_cast<BF16*>(scratch.Words(parts.rounded_strip));
  float* const out = scratch.Floats(parts.out);
  bf16_dots::PackRows(s.time, d, At(p.qkv, head.k_at()), stride, keys);
  bf16_dots::PackPairsOfRows(s.time, d, At(p.qkv, head.v_at()), stride, values);
  const float factor = head.scale() * std::numbers::log2e_v<float>;
  for (int64_t first = 0; first < s.time; first += kStripRows) {
    const Strip strip = StripAt(first, s.time, head.FirstSeen(p.starts, first));
    Scores(s, strip, At(p.qkv, head.q_at() + first * stride), stride, keys, scores, parts.row);
    float sums[kStripRows];
    for (int64_t r = 0; r < strip.rows; ++r) {
      const SoftmaxSums softmax = Softmax(strip, {head.FirstSeen(p.starts, first + r), first + r + 1}, factor,
                                          scores + r * parts.row, probabilities + r * parts.row);
      p.logsumexp[head.rows_at() + first + r] = softmax.logsumexp2 * std::numbers::ln2_v<float>;
      sums[r] = softmax.sum;
    }
    Weighted(s, strip, probabilities, parts.row, values, out);
    for (int64_t r = 0; r < strip.rows; ++r) {
      StoreScaled(d, 1.0f / sums[r], out + r * d, At(p.out, head.out_at() + (first + r) * head.width()));
      const int64_t row = (first + r) * stride;
      for (const int64_t at : {head.q_at(), head.k_at(), head.v_at()}) FetchNext(At(p.qkv, at + row), d);
      FetchNext(At(p.out, head.out_at() + (first + r) * head.width()), d);
    }
  }
}

namespace {

// The backward of one group: its packed keys and values, and the sums of its gradients.
class Group {
 public:
  Group(const AttentionBackwardArguments& arguments, void* memory)
      : p_(arguments), shape_(arguments.shape), parts_(shape_) {
    Scratch scratch(memory);
    keys_ = scratch.Words(parts_.packed);
    values_ = scratch.Words(parts_.packed);
    key_pairs_ = scratch.Words(parts_.pairs);
    query_pairs_ = scratch.Words(parts_.tile_pairs);
    dout_pairs_ = scratch.Words(parts_.tile_pairs);
    scores_ = scratch.Floats(parts_.strip);
    dp_ = scratch.Floats(parts_.strip);
    ds_ = reinterpret_cast<BF16*>(scratch.Words(parts_.rounded_strip));
    out_ = scratch.Floats(parts_.out);
    tile_p_ = scratch.Words(parts_.tile_rounded);
    tile_ds_ = scratch.Words(parts_.tile_rounded);
    dk_ = scratch.Floats(parts_.head);
    dv_ = scratch.Floats(parts_.head);
  }

  void Run(int64_t sequence, int64_t group) {
    const int64_t heads = shape_.heads / shape_.kv_heads, d = shape_.head_size, stride = shape_.columns();
    const AttentionHead first{shape_, sequence, group * heads};
    const BF16 *const k = At(p_.qkv, first.k_at()), *const v = At(p_.qkv, first.v_at());
    bf16_dots::PackRows(shape_.time, d, k, stride, keys_);
    bf16_dots::PackRows(shape_.time, d, v, stride, values_);
    bf16_dots::PackPairsOfRows(shape_.time, d, k, stride, key_pairs_);
    std::fill_n(dk_, shape_.time * d, 0.0f);
    std::fill_n(dv_, shape_.time * d, 0.0f);
    for (int64_t index = 0; index < heads; ++index) AddHead({shape_, sequence, group * heads + index});
    for (int64_t t = 0; t < shape_.time; ++t) {
      StoreScaled(d, 1.0f, dk_ + t * d, At(p_.dqkv, first.k_at() + t * stride));
      StoreScaled(d, 1.0f, dv_ + t * d, At(p_.dqkv, first.v_at() + t * stride));
    }
  }

 private:
  void AddHead(const AttentionHead& head) {
    const int64_t d = shape_.head_size, stride = shape_.columns(), width = head.width();
    for (int64_t first = 0; first < shape_.time; first += kTileRows) {
      const int64_t rows = std::min(kTileRows, shape_.time - first);
      const int64_t first_seen = head.FirstSeen(p_.starts, first);
      const Tile tile{first, rows, RoundDown(first_seen, kChunkLanes)};
      bf16_dots::PackPairsOfRows(rows, d, At(p_.qkv, head.q_at() + first * stride), stride, query_pairs_);
      bf16_dots::PackPairsOfRows(rows, d, At(p_.dout, head.out_at() + first * width), width, dout_pairs_);
      for (int64_t row = first; row < first + rows; row += kStripRows) {
        AddStrip(head, tile, StripAt(row, first + rows, first_seen));
      }
      AddTransposed(shape_, tile, tile_p_, parts_.row, dout_pairs_, dv_);
      AddTransposed(shape_, tile, tile_ds_, parts_.row, query_pairs_, dk_);
    }
  }

  // Leaves the strip's probabilities and scores' gradients with the tile's, and its queries' gradient in dqkv.
  void AddStrip(const AttentionHead& head, const Tile& tile, const Strip& strip) {
    const int64_t d = shape_.head_size, stride = shape_.columns(), width = head.width();
    const BF16* const dout = At(p_.dout, head.out_at() + strip.first * width);
    Scores(shape_, strip, At(p_.qkv, head.q_at() + strip.first * stride), stride, keys_, scores_, parts_.row);
    Scores(shape_, strip, dout, width, values_, dp_, parts_.row);
    const float scale = head.scale(), factor = scale * std::numbers::log2e_v<float>;
    for (int64_t r = 0; r < strip.rows; r += 2) {
      const RowGradient a = RowAt(head, strip, r);
      const RowGradient b = r + 1 < strip.rows ? RowAt(head, strip, r + 1) : RowGradient{};
      const int64_t at_pair = (strip.first - tile.first + r) / 2 * parts_.row;
      BF16 *const ds_a = ds_ + r * parts_.row, *const ds_b = ds_a + parts_.row;
      // One vector more than the strip's: AddTransposed takes keys in strips that may end behind it.
      for (int64_t key = strip.begin; key < strip.end + kLanes; key += kLanes) {
        const Rounded first = GradientVector(a, key, scale, factor), second = GradientVector(b, key, scale, factor);
        StoreHalves(first.ds, ds_a + key);
        StoreHalves(second.ds, ds_b + key);
        _mm512_storeu_si512(tile_p_ + at_pair + key, PairUp(first.p, second.p));
        _mm512_storeu_si512(tile_ds_ + at_pair + key, PairUp(first.ds, second.ds));
      }
    }
    Weighted(shape_, strip, ds_, parts_.row, key_pairs_, out_);
    for (int64_t r = 0; r < strip.rows; ++r) {
      const int64_t row = (strip.first + r) * stride, out_row = head.out_at() + (strip.first + r) * width;
      StoreScaled(d, 1.0f, out_ + r * d, At(p_.dqkv, head.q_at() + row));
      for (const int64_t at : {head.q_at(), head.k_at(), head.v_at()}) {
        FetchNext(At(p_.qkv, at + row), d);
        FetchNext(At(p_.dqkv, at + row), d);
      }
      FetchNext(At(p_.out, out_row), d);
      FetchNext(At(p_.dout, out_row), d);
    }
  }

  RowGradient RowAt(const AttentionHead& head, const Strip& strip, int64_t r) const {
    const int64_t row = strip.first + r, at = head.out_at() + row * head.width();
    return {.seen = {head.FirstSeen(p_.starts, row), row + 1},
            .logsumexp2 = p_.logsumexp[head.rows_at() + row] * std::numbers::log2e_v<float>,
            .delta = Dot(shape_.head_size, At(p_.dout, at), At(p_.out, at)),
            .scores = scores_ + r * parts_.row,
            .dp = dp_ + r * parts_.row};
  }

  const AttentionBackwardArguments& p_;
  const AttentionShape& shape_;
  const Parts parts_;
  uint32_t *keys_, *values_, *key_pairs_, *query_pairs_, *dout_pairs_;
  float *scores_, *dp_;
  BF16* ds_;
  float* out_;
  uint32_t *tile_p_, *tile_ds_;
  float *dk_, *dv_;
};

}  // namespace

void BackwardGroup(const AttentionBackwardArguments& arguments, int64_t sequence, int64_t group, void* scratch) {
  Group(arguments, scratch).Run(sequence, group);
}

}  // namespace zerofleet::device::bf16_attention
ZF_END_BF16_CODE

#else
namespace zerofleet::device::bf16_attention {

void ForwardHead(const AttentionForwardArguments&, int64_t, int64_t, void*) { ZF_CHECK(false); }
void BackwardGroup(const AttentionBackwardArguments&, int64_t, int64_t, void*) { ZF_CHECK(false); }

}  // namespace zerofleet::device::bf16_attention
#endif
