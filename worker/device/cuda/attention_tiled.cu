// See attention_tiled.h. Based on FlashAttention-2 (Dao 2023), without its atomics.
//
// Legend: B sequences, T positions, H heads of queries and G of keys and values, D their size; kD is D rounded up to a
// variant, kTile the number of queries or keys per tile.
//
// A block of 16 x 16 threads owns one tile of queries (forward, dq) or of keys (dk and dv) of one head and walks the
// tiles of the other kind that the causal mask does not hide, each of which is in shared memory as fp32 while it is
// used. For dk and dv the block does so for each query head that shares the keys, in the order of the heads. So every
// result is summed by one block in one order, and nothing of size T x T exists. Thread (ty, tx) works on rows ty, ty +
// 16, ... and columns tx, tx + 16, ... of a tile: the 16 lanes of a row read neighbouring columns. Rows of shared tiles
// are an odd number of floats apart, so that reading down a column does not hit the same bank twice either.
//
// Where several documents lie in one sequence, a block walks only the tiles that its rows' documents reach, and masks
// pairs of different documents in those. So the work grows with the sum of the documents' squared lengths, not with
// T^2.
#include "worker/device/cuda/attention_tiled.h"

#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/units.h"
#include "worker/device/cuda/dispatch.h"
#include "worker/device/cuda/launch.cuh"
#include "worker/device/cuda/vector.cuh"

namespace zerofleet::device::cuda {
namespace {

constexpr int kSide = 16;  // side of the square of threads
constexpr int kThreads = kSide * kSide;
// Blocks per multiprocessor for the kernels that walk tiles, which allows 128 registers per thread. Without this bound
// nvcc 13.0 uses as many and still spills some for sm_90.
[[maybe_unused]] constexpr int kBlocks = 2;

// The stride of a shared tile's rows, in floats.
template <int kColumns>
inline constexpr int kStride = kColumns + 1;
template <int kTile, int kD>
inline constexpr int kTileFloats = kTile*(kD + 1);

__device__ inline int Ty() { return static_cast<int>(threadIdx.x) / kSide; }
__device__ inline int Tx() { return static_cast<int>(threadIdx.x) % kSide; }

// One head of one sequence, and which of its tiles belongs to this block.
struct Place {
  int64_t sequence, head, tile;
  int width, d;             // elements per row of out (H*D), and D
  int columns;              // elements per row of qkv and dqkv
  int64_t qkv_at, keys_at;  // the first element of the head's queries and of its keys in qkv and dqkv
  int64_t values_on;        // distance from a head's keys to its values
  int64_t at;               // the head's first element in out and dout
  int64_t rows_at;          // the head's first row in logsumexp and delta
};

// Blocks are numbered head by head, tiles innermost. A block's head is the first of the `each` query heads that it
// processes.
__device__ inline Place PlaceOf(const AttentionShape& s, int64_t tiles, int64_t each = 1) {
  Place p;
  const int64_t index = blockIdx.x, heads = s.heads / each;
  p.tile = index % tiles;
  p.head = index / tiles % heads * each;
  p.sequence = index / tiles / heads;
  p.d = static_cast<int>(s.head_size);
  p.width = static_cast<int>(s.heads * s.head_size);
  p.columns = static_cast<int>((s.heads + 2 * s.kv_heads) * s.head_size);
  p.values_on = s.kv_heads * s.head_size;
  const int64_t row = p.sequence * s.time * p.columns;
  p.at = p.sequence * s.time * p.width + p.head * p.d;
  p.qkv_at = row + p.head * p.d;
  p.keys_at = row + (s.heads + p.head / (s.heads / s.kv_heads)) * p.d;
  p.rows_at = (p.sequence * s.heads + p.head) * s.time;
  return p;
}

// The first position that position `t` of the block's sequence sees. Past the end it does not matter.
__device__ inline int FirstSeen(const int32_t* starts, int64_t t, int64_t time) {
  return starts != nullptr && t < time ? starts[t] : 0;
}

// The beginning of the first tile of keys that a tile of queries sees, which starts at `query`: no later query sees an
// earlier key than its first does.
template <int kTile>
__device__ inline int64_t FirstTile(const int32_t* starts, int64_t query, int64_t time) {
  return FirstSeen(starts, query, time) / kTile * kTile;
}

// Loads `rows` rows of `d` elements, `stride` apart, into shared(kTile,kD), which is zero elsewhere.
template <typename T, int kTile, int kD>
__device__ void LoadTile(const T* from, int stride, int64_t rows, int d, float* shared) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kD; i += kThreads) {
    const int row = i / kD, column = i % kD;
    shared[row * kStride<kD> + column] = row < rows && column < d ? Widen(from[row * stride + column]) : 0.0f;
  }
}

// result[i][j] = the dot product of row ty + 16 i of `a` and row tx + 16 j of `b`, both (kTile,kD).
template <int kTile, int kD>
__device__ void RowProducts(const float* a, const float* b, float (&result)[kTile / kSide][kTile / kSide]) {
  constexpr int kEach = kTile / kSide;
  for (int i = 0; i < kEach; ++i) {
    for (int j = 0; j < kEach; ++j) result[i][j] = 0;
  }
  for (int c = 0; c < kD; ++c) {
    float column[kEach];
    for (int j = 0; j < kEach; ++j) column[j] = b[(Tx() + kSide * j) * kStride<kD> + c];
    for (int i = 0; i < kEach; ++i) {
      const float x = a[(Ty() + kSide * i) * kStride<kD> + c];
      for (int j = 0; j < kEach; ++j) result[i][j] += x * column[j];
    }
  }
}

// sum[i][j] += element (ty + 16 i, tx + 16 j) of the product weights b, or with kTransposed weights^T b; weights is
// (kTile,kTile), b (kTile,kD).
template <int kTile, int kD, bool kTransposed>
__device__ void AddProduct(const float* weights, const float* b, float (&sum)[kTile / kSide][kD / kSide]) {
  constexpr int kStep = kTransposed ? 1 : kStride<kTile>, kInner = kTransposed ? kStride<kTile> : 1;
  for (int k = 0; k < kTile; ++k) {
#pragma unroll
    for (int i = 0; i < kTile / kSide; ++i) {
      const float weight = weights[(Ty() + kSide * i) * kStep + k * kInner];
#pragma unroll
      for (int j = 0; j < kD / kSide; ++j) sum[i][j] += weight * b[k * kStride<kD> + Tx() + kSide * j];
    }
  }
}

template <int kTile>
__device__ void StoreSquare(const float (&values)[kTile / kSide][kTile / kSide], float* shared) {
  for (int i = 0; i < kTile / kSide; ++i) {
    for (int j = 0; j < kTile / kSide; ++j) {
      shared[(Ty() + kSide * i) * kStride<kTile> + Tx() + kSide * j] = values[i][j];
    }
  }
}

// Writes sum[i] * factor[i] to `rows` rows of `d` elements at `to`, `stride` apart.
template <typename T, int kTile, int kD>
__device__ void WriteRows(const float (&sum)[kTile / kSide][kD / kSide], const float (&factor)[kTile / kSide],
                          int64_t rows, int d, int stride, T* to) {
  for (int i = 0; i < kTile / kSide; ++i) {
    const int row = Ty() + kSide * i;
    for (int j = 0; j < kD / kSide; ++j) {
      const int column = Tx() + kSide * j;
      if (row < rows && column < d) to[row * stride + column] = Narrow<T>(sum[i][j] * factor[i]);
    }
  }
}

// The maximum and the sum over the 16 lanes that share a row.
__device__ inline float RowMaximum(float value) {
  for (int lanes = kSide / 2; lanes > 0; lanes /= 2) value = std::fmax(value, ShuffleXor(value, lanes));
  return value;
}
__device__ inline float RowSum(float value) {
  for (int lanes = kSide / 2; lanes > 0; lanes /= 2) value += ShuffleXor(value, lanes);
  return value;
}

// A row's running softmax over tiles of keys: the largest score so far, and the sum of exp(score - maximum).
struct RunningSoftmax {
  float maximum = -std::numeric_limits<float>::infinity(), sum = 0;
};

// Turns this thread's scores of a row into exp(score - maximum) and updates `row`; returns the factor for the row's
// earlier sums. A NaN does not affect the maximum and makes the sum NaN. `has_seen` says whether the row sees a key of
// this tile or of an earlier one. Before that its maximum is -inf, from which nothing can be subtracted.
template <int kEach>
__device__ float TakeScores(bool has_seen, float (&scores)[kEach], RunningSoftmax& row) {
  float maximum = scores[0];
  for (int j = 1; j < kEach; ++j) maximum = std::fmax(maximum, scores[j]);
  maximum = std::fmax(row.maximum, RowMaximum(maximum));
  const float from = has_seen ? maximum : 0.0f;
  const float correction = std::exp(row.maximum - from);
  float sum = 0;
  for (int j = 0; j < kEach; ++j) sum += scores[j] = std::exp(scores[j] - from);
  row.sum = row.sum * correction + RowSum(sum);
  row.maximum = maximum;
  return correction;
}

template <typename T, int kTile, int kD>
__global__ void __launch_bounds__(kThreads, kBlocks)
    ForwardKernel(AttentionShape shape, int64_t tiles, float scale, const T* qkv, const int32_t* starts, T* out,
                  float* logsumexp) {
  constexpr int kEach = kTile / kSide, kColumns = kD / kSide;
  float* const q = DynamicShared<float>();
  float* const k_or_v = q + kTileFloats<kTile, kD>;  // values replace the keys once the scores are computed
  float* const p = k_or_v + kTileFloats<kTile, kD>;
  const Place at = PlaceOf(shape, tiles);
  const int64_t first = at.tile * kTile, rows = shape.time - first;
  const int row_stride = at.columns;
  const T *const queries = qkv + at.qkv_at, *const keys = qkv + at.keys_at, *const values = keys + at.values_on;
  LoadTile<T, kTile, kD>(queries + first * row_stride, row_stride, rows, at.d, q);
  if (starts != nullptr) starts += at.sequence * shape.time;
  float sum[kEach][kColumns] = {}, scores[kEach][kEach];
  RunningSoftmax softmax[kEach];
  for (int64_t key = FirstTile<kTile>(starts, first, shape.time); key <= first; key += kTile) {
    LoadTile<T, kTile, kD>(keys + key * row_stride, row_stride, shape.time - key, at.d, k_or_v);
    SyncThreads();
    RowProducts<kTile, kD>(q, k_or_v, scores);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int64_t query = first + Ty() + kSide * i;
      const int seen = FirstSeen(starts, query, shape.time);
      for (int j = 0; j < kEach; ++j) {
        const int64_t position = key + Tx() + kSide * j;
        const bool sees = seen <= position && position <= query;
        scores[i][j] = sees ? scores[i][j] * scale : -std::numeric_limits<float>::infinity();
      }
      const float correction = TakeScores(seen < key + kTile, scores[i], softmax[i]);
#pragma unroll
      for (int j = 0; j < kColumns; ++j) sum[i][j] *= correction;
    }
    StoreSquare<kTile>(scores, p);
    SyncThreads();
    LoadTile<T, kTile, kD>(values + key * row_stride, row_stride, shape.time - key, at.d, k_or_v);
    SyncThreads();
    AddProduct<kTile, kD, false>(p, k_or_v, sum);
    SyncThreads();
  }
  float inverse[kEach];
  for (int i = 0; i < kEach; ++i) {
    inverse[i] = 1.0f / softmax[i].sum;
    const int row = Ty() + kSide * i;
    if (Tx() == 0 && row < rows) {
      logsumexp[at.rows_at + first + row] = softmax[i].maximum + std::log(softmax[i].sum);
    }
  }
  WriteRows<T, kTile, kD>(sum, inverse, rows, at.d, at.width, out + at.at + first * at.width);
}

// delta(B,H,T) = the dot products of the rows of dout and out, per head. One warp per row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    DeltaKernel(AttentionShape shape, const T* out, const T* dout, float* delta) {
  const int64_t rows = shape.batch * shape.time * shape.heads;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kThreads / kWarp) + static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float sum = 0;
  if (row < rows) {
    for (int64_t i = lane; i < shape.head_size; i += kWarp) {
      sum += Widen(dout[row * shape.head_size + i]) * Widen(out[row * shape.head_size + i]);
    }
  }
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) sum += ShuffleXor(sum, lanes);
  const int64_t head = row % shape.heads, token = row / shape.heads;
  const int64_t to = (token / shape.time * shape.heads + head) * shape.time + token % shape.time;
  if (lane == 0 && row < rows) delta[to] = sum;
}

// For a tile of queries that starts at `query` and one of keys that starts at `key`: turns scores = q k^T into p and dp
// = dout v^T into the gradient of scores, both 0 where the mask or the end of the sequence hides the pair.
template <int kEach>
__device__ void TileGradient(int64_t query, int64_t key, int64_t time, float scale, const int32_t* starts,
                             const float* logsumexp, const float* delta, float (&scores)[kEach][kEach],
                             float (&dp)[kEach][kEach]) {
  for (int i = 0; i < kEach; ++i) {
    const int64_t t = query + Ty() + kSide * i;
    const float normalizer = t < time ? logsumexp[t] : 0.0f, mean = t < time ? delta[t] : 0.0f;
    const int seen = FirstSeen(starts, t, time);
    for (int j = 0; j < kEach; ++j) {
      const int64_t position = key + Tx() + kSide * j;
      const bool sees = t < time && seen <= position && position <= t;
      const float p = sees ? std::exp(scores[i][j] * scale - normalizer) : 0.0f;
      scores[i][j] = p;
      dp[i][j] = sees ? p * (dp[i][j] - mean) * scale : 0.0f;
    }
  }
}

template <typename T, int kTile, int kD>
__global__ void __launch_bounds__(kThreads, kBlocks)
    BackwardQueriesKernel(AttentionShape shape, int64_t tiles, float scale, const T* qkv, const T* dout,
                          const int32_t* starts, const float* logsumexp, const float* delta, T* dqkv) {
  constexpr int kEach = kTile / kSide;
  float* const q = DynamicShared<float>();
  float* const dy = q + kTileFloats<kTile, kD>;
  float* const k = dy + kTileFloats<kTile, kD>;
  float* const v = k + kTileFloats<kTile, kD>;
  float* const ds = v + kTileFloats<kTile, kD>;
  const Place at = PlaceOf(shape, tiles);
  const int64_t first = at.tile * kTile, rows = shape.time - first;
  const int row_stride = at.columns;
  const T *const queries = qkv + at.qkv_at, *const keys = qkv + at.keys_at;
  LoadTile<T, kTile, kD>(queries + first * row_stride, row_stride, rows, at.d, q);
  LoadTile<T, kTile, kD>(dout + at.at + first * at.width, at.width, rows, at.d, dy);
  if (starts != nullptr) starts += at.sequence * shape.time;
  float dq[kEach][kD / kSide] = {}, scores[kEach][kEach], dp[kEach][kEach];
  for (int64_t key = FirstTile<kTile>(starts, first, shape.time); key <= first; key += kTile) {
    const T* const from = keys + key * row_stride;
    LoadTile<T, kTile, kD>(from, row_stride, shape.time - key, at.d, k);
    LoadTile<T, kTile, kD>(from + at.values_on, row_stride, shape.time - key, at.d, v);
    SyncThreads();
    RowProducts<kTile, kD>(q, k, scores);
    RowProducts<kTile, kD>(dy, v, dp);
    TileGradient<kEach>(first, key, shape.time, scale, starts, logsumexp + at.rows_at, delta + at.rows_at, scores, dp);
    StoreSquare<kTile>(dp, ds);
    SyncThreads();
    AddProduct<kTile, kD, false>(ds, k, dq);
    SyncThreads();
  }
  float ones[kEach];
  for (float& one : ones) one = 1;
  WriteRows<T, kTile, kD>(dq, ones, rows, at.d, row_stride, dqkv + at.qkv_at + first * row_stride);
}

template <typename T, int kTile, int kD>
__global__ void __launch_bounds__(kThreads, kBlocks)
    BackwardKeysKernel(AttentionShape shape, int64_t tiles, float scale, const T* qkv, const T* dout,
                       const int32_t* starts, const float* logsumexp, const float* delta, T* dqkv) {
  constexpr int kEach = kTile / kSide;
  float* const k = DynamicShared<float>();
  float* const v = k + kTileFloats<kTile, kD>;
  float* const q = v + kTileFloats<kTile, kD>;
  float* const dy = q + kTileFloats<kTile, kD>;
  float* const p = dy + kTileFloats<kTile, kD>;
  float* const ds = p + kTileFloats<kTile, kTile>;
  const int64_t sharing = shape.heads / shape.kv_heads;
  const Place at = PlaceOf(shape, tiles, sharing);
  const int64_t first = at.tile * kTile, rows = shape.time - first;
  const int row_stride = at.columns;
  const T* const keys = qkv + at.keys_at + first * row_stride;
  LoadTile<T, kTile, kD>(keys, row_stride, rows, at.d, k);
  LoadTile<T, kTile, kD>(keys + at.values_on, row_stride, rows, at.d, v);
  float dk[kEach][kD / kSide] = {}, dv[kEach][kD / kSide] = {}, scores[kEach][kEach], dp[kEach][kEach];
  qkv += at.qkv_at;
  dout += at.at;
  logsumexp += at.rows_at;
  delta += at.rows_at;
  if (starts != nullptr) starts += at.sequence * shape.time;
#pragma unroll 1
  for (int head = 0; head < static_cast<int>(sharing); ++head) {
    // Where one tile's first query sees none of the keys, no later query does.
    for (int64_t query = first; query < shape.time && FirstSeen(starts, query, shape.time) < first + kTile;
         query += kTile) {
      LoadTile<T, kTile, kD>(qkv + query * row_stride, row_stride, shape.time - query, at.d, q);
      LoadTile<T, kTile, kD>(dout + query * at.width, at.width, shape.time - query, at.d, dy);
      SyncThreads();
      RowProducts<kTile, kD>(q, k, scores);
      RowProducts<kTile, kD>(dy, v, dp);
      TileGradient<kEach>(query, first, shape.time, scale, starts, logsumexp, delta, scores, dp);
      StoreSquare<kTile>(scores, p);
      StoreSquare<kTile>(dp, ds);
      SyncThreads();
      AddProduct<kTile, kD, true>(p, dy, dv);
      AddProduct<kTile, kD, true>(ds, q, dk);
      SyncThreads();
    }
    qkv += at.d;
    dout += at.d;
    logsumexp += shape.time;
    delta += shape.time;
  }
  float ones[kEach];
  for (float& one : ones) one = 1;
  T* const to = dqkv + at.keys_at + first * row_stride;
  WriteRows<T, kTile, kD>(dk, ones, rows, at.d, row_stride, to);
  WriteRows<T, kTile, kD>(dv, ones, rows, at.d, row_stride, to + at.values_on);
}

float ScaleOf(const AttentionShape& shape) { return 1.0f / std::sqrt(static_cast<float>(shape.head_size)); }

dim3 Blocks(const AttentionShape& shape, int64_t heads, int64_t tiles) {
  const int64_t blocks = shape.batch * heads * tiles;
  ZF_CHECK(blocks <= std::numeric_limits<int32_t>::max());
  return dim3(static_cast<unsigned>(blocks));
}

struct ForwardArguments {
  const AttentionShape& shape;
  Tensor qkv, out;
  float* logsumexp;
  const int32_t* starts;
};

template <typename T, int kTile, int kD>
void Forward(Stream& stream, const ForwardArguments& a) {
  constexpr size_t kFloats = 2 * kTileFloats<kTile, kD> + kTileFloats<kTile, kTile>;
  const AttentionShape& shape = a.shape;
  const int64_t tiles = CeilDivide(shape.time, kTile);
  Launch(stream, "AttentionForward", ForwardKernel<T, kTile, kD>, Blocks(shape, shape.heads, tiles), dim3(kThreads),
         kFloats * sizeof(float), shape, tiles, ScaleOf(shape), static_cast<const T*>(a.qkv.data), a.starts,
         static_cast<T*>(a.out.data), a.logsumexp);
}

struct BackwardArguments {
  const AttentionShape& shape;
  Tensor qkv, out;
  const float* logsumexp;
  Tensor dout, dqkv;
  float* delta;
  const int32_t* starts;
};

template <typename T, int kTile, int kD>
void Backward(Stream& stream, const BackwardArguments& a) {
  constexpr size_t kQueryFloats = 4 * kTileFloats<kTile, kD> + kTileFloats<kTile, kTile>;
  constexpr size_t kKeyFloats = kQueryFloats + kTileFloats<kTile, kTile>;
  const AttentionShape& shape = a.shape;
  const int64_t tiles = CeilDivide(shape.time, kTile);
  const dim3 row_blocks = Blocks(shape, shape.heads, CeilDivide(shape.time, kThreads / kWarp));
  const auto *qkv = static_cast<const T*>(a.qkv.data), *dout = static_cast<const T*>(a.dout.data);
  auto* const dqkv = static_cast<T*>(a.dqkv.data);
  Launch(stream, "AttentionBackward", DeltaKernel<T>, row_blocks, dim3(kThreads), 0, shape,
         static_cast<const T*>(a.out.data), dout, a.delta);
  Launch(stream, "AttentionBackward", BackwardQueriesKernel<T, kTile, kD>, Blocks(shape, shape.heads, tiles),
         dim3(kThreads), kQueryFloats * sizeof(float), shape, tiles, ScaleOf(shape), qkv, dout, a.starts, a.logsumexp,
         a.delta, dqkv);
  Launch(stream, "AttentionBackward", BackwardKeysKernel<T, kTile, kD>, Blocks(shape, shape.kv_heads, tiles),
         dim3(kThreads), kKeyFloats * sizeof(float), shape, tiles, ScaleOf(shape), qkv, dout, a.starts, a.logsumexp,
         a.delta, dqkv);
}

// Tiles are as large as fit in 99 KiB of shared memory, which a block can have on every GPU since 8.6 (8.0 and 9.0
// allow more).
template <typename T>
void ForwardOf(Stream& stream, const ForwardArguments& arguments) {
  if (arguments.shape.head_size <= 32) return Forward<T, 64, 32>(stream, arguments);
  if (arguments.shape.head_size <= 64) return Forward<T, 64, 64>(stream, arguments);
  if (arguments.shape.head_size <= 128) return Forward<T, 64, 128>(stream, arguments);
  return Forward<T, 32, kMaxHeadSize>(stream, arguments);
}

template <typename T>
void BackwardOf(Stream& stream, const BackwardArguments& arguments) {
  if (arguments.shape.head_size <= 32) return Backward<T, 64, 32>(stream, arguments);
  if (arguments.shape.head_size <= 64) return Backward<T, 64, 64>(stream, arguments);
  if (arguments.shape.head_size <= 128) return Backward<T, 32, 128>(stream, arguments);
  return Backward<T, 16, kMaxHeadSize>(stream, arguments);
}

}  // namespace

void TiledAttentionForward(Stream& stream, const AttentionShape& shape, Tensor qkv, Tensor out, float* logsumexp,
                           const int32_t* starts) {
  ZF_CHECK(shape.head_size <= kMaxHeadSize);
  ZF_CHECK(shape.heads % shape.kv_heads == 0);
  ZF_CHECK(qkv.dtype == out.dtype);
  const ForwardArguments arguments{shape, qkv, out, logsumexp, starts};
  WithType(qkv.dtype, [&](auto tag) { ForwardOf<typename decltype(tag)::Type>(stream, arguments); });
}

void TiledAttentionBackward(Stream& stream, const AttentionShape& shape, Tensor qkv, Tensor out, const float* logsumexp,
                            Tensor dout, Tensor dqkv, float* delta, const int32_t* starts) {
  ZF_CHECK(shape.head_size <= kMaxHeadSize);
  ZF_CHECK(shape.heads % shape.kv_heads == 0);
  ZF_CHECK(qkv.dtype == dqkv.dtype);
  ZF_CHECK(qkv.dtype == dout.dtype);
  const BackwardArguments arguments{shape, qkv, out, logsumexp, dout, dqkv, delta, starts};
  WithType(qkv.dtype, [&](auto tag) { BackwardOf<typename decltype(tag)::Type>(stream, arguments); });
}

}  // namespace zerofleet::device::cuda
