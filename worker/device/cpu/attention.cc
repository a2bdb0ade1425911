// Causal self-attention (ops.h) without a (T,T) matrix, after FlashAttention (Dao et al. 2022).
//
// One task is one head of one sequence; in the backward, all query heads that share a head of keys and values. A task
// walks tiles of queries. A tile sees the keys up to its own last row, so no more than its scores (rows x keys) are
// held at a time, and the softmax of a row is computed at once. The backward computes the probabilities again from
// logsumexp.
//
// Sums and softmax are fp32. bf16 tensors are computed by attention_bf16.h where it takes them. On AMX they are
// multiplied where they are, with probabilities and the scores' gradients rounded to bf16, as FlashAttention does on
// GPUs. Otherwise a task copies its head's queries, keys and values as fp32, which is as fast for products so small.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/units.h"
#include "worker/device/cpu/attention_bf16.h"
#include "worker/device/cpu/attention_head.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/cpu_stream.h"
#include "worker/device/cpu/kernels.h"
#include "worker/device/cpu/matmul.h"
#include "worker/device/cpu/matmul_primitive.h"

namespace zerofleet::device {
namespace {

constexpr int64_t kAlignFloats = 16;  // scratch parts start on a cache line

bool IsRounded(DType dtype) { return dtype == DType::kBF16 && HasAmx(); }

// Queries per tile. On AMX a product first reorders its keys, which more rows make worth while.
int64_t TileRows(bool rounded) { return rounded ? 128 : 64; }

// One thread's part of the scratch. Some are not used: q, k and v if operands are rounded, the last two if they are
// not; and all from `dk` on but `probabilities` in the forward.
struct Scratch {
  float *q, *k, *v;                       // (T,D)
  float *scores, *out;                    // (rows,T), (rows,D)
  float *dk, *dv;                         // (T,D)
  float *dscores, *dout;                  // (rows,T), (rows,D)
  BF16 *probabilities, *score_gradients;  // (rows,T)

  Scratch(const AttentionShape& shape, bool is_rounded, void* scratch);
};

// Sizes of the parts in floats: a head's (T,D), a tile's scores, and a tile's rows.
struct ScratchSizes {
  int64_t copied, head, tile, rows, rounded;
  ScratchSizes(const AttentionShape& s, bool is_rounded)
      : head(RoundUp(s.time * s.head_size, kAlignFloats)),
        tile(TileRows(is_rounded) * RoundUp(s.time, kAlignFloats)),
        rows(TileRows(is_rounded) * RoundUp(s.head_size, kAlignFloats)) {
    copied = is_rounded ? 0 : head;
    rounded = is_rounded ? tile / 2 : 0;
  }
  int64_t bytes() const {
    return (3 * copied + 2 * head + 2 * tile + 2 * rows + 2 * rounded) * static_cast<int64_t>(sizeof(float));
  }
};

Scratch::Scratch(const AttentionShape& shape, bool is_rounded, void* scratch) {
  const ScratchSizes sizes(shape, is_rounded);
  float* at = static_cast<float*>(scratch);
  const auto take = [&](int64_t floats) { return std::exchange(at, at + floats); };
  for (float** copy : {&q, &k, &v}) *copy = take(sizes.copied);
  for (float** head : {&dk, &dv}) *head = take(sizes.head);
  for (float** tile : {&scores, &dscores}) *tile = take(sizes.tile);
  for (float** part : {&out, &dout}) *part = take(sizes.rows);
  for (BF16** tile : {&probabilities, &score_gradients}) *tile = reinterpret_cast<BF16*>(take(sizes.rounded));
}

// Enough for tensors of any type.
int64_t ThreadScratchBytes(const AttentionShape& shape) {
  int64_t bytes = ScratchSizes(shape, false).bytes();
  if (HasAmx()) bytes = std::max(bytes, ScratchSizes(shape, true).bytes());
  if (bf16_attention::Takes(shape)) bytes = std::max(bytes, bf16_attention::ScratchBytes(shape));
  return bytes;
}

void* ThreadScratch(const AttentionShape& shape, void* scratch, int thread) {
  return static_cast<std::byte*>(scratch) + thread * ThreadScratchBytes(shape);
}

Matrix Dense(float* data, int64_t stride, bool transposed = false) { return {{data, DType::kF32}, stride, transposed}; }

Matrix Transposed(Matrix matrix) {
  matrix.transposed = !matrix.transposed;
  return matrix;
}

// These copy `rows` rows of D elements, `stride` apart, to contiguous fp32 and back.
void Gather(int64_t rows, int64_t head_size, Tensor from, int64_t stride, float* to) {
  for (int64_t t = 0; t < rows; ++t) {
    kernels::Convert(head_size, from.Offset(t * stride), {to + t * head_size, DType::kF32});
  }
}
void Scatter(int64_t rows, int64_t head_size, float* from, Tensor to, int64_t stride) {
  for (int64_t t = 0; t < rows; ++t) {
    kernels::Convert(head_size, {from + t * head_size, DType::kF32}, to.Offset(t * stride));
  }
}

// A head, and what the products read of it.
class Head : public AttentionHead {
 public:
  Head(const AttentionShape& of, Tensor qkv, int64_t in_sequence, int64_t number)
      : AttentionHead{of, in_sequence, number}, rounded(IsRounded(qkv.dtype)), qkv_(qkv) {}

  const bool rounded;

  // Rows of D elements, from token `first` on. Copies are made by Load.
  Matrix Queries(const Scratch& s, int64_t first) const { return Operand(q_at(), first, s.q); }
  Matrix Keys(const Scratch& s) const { return Operand(k_at(), 0, s.k); }
  Matrix Values(const Scratch& s) const { return Operand(v_at(), 0, s.v); }
  void LoadQueries(const Scratch& s) const { Load(q_at(), s.q); }
  void LoadKeysValues(const Scratch& s) const {
    Load(k_at(), s.k);
    Load(v_at(), s.v);
  }

 private:
  Matrix Operand(int64_t at, int64_t first, float* copy) const {
    return rounded ? Matrix{qkv_.Offset(at + first * shape.columns()), shape.columns()}
                   : Dense(copy + first * shape.head_size, shape.head_size);
  }
  void Load(int64_t at, float* to) const {
    if (!rounded) Gather(shape.time, shape.head_size, qkv_.Offset(at), shape.columns(), to);
  }

  const Tensor qkv_;
};

// A tile's scores or their gradient as an operand: itself, or rounded into `to`.
Matrix TileOperand(const Head& head, int64_t rows, int64_t keys, float* from, BF16* to) {
  if (!head.rounded) return Dense(from, keys);
  const Tensor rounded = {to, DType::kBF16};
  kernels::Convert(rows * keys, {from, DType::kF32}, rounded);
  return {rounded, keys};
}

// Computes `rows` rows of D elements of `to`, which are `stride` apart: p's product, whose c may be a copy in `copy`.
absl::Status RowsProduct(const Head& head, MatmulArguments p, float* copy, Tensor to, int64_t stride) {
  p.n = head.shape.head_size;
  p.c = head.rounded ? Matrix{to, stride} : Dense(copy, p.n);
  const absl::Status status = SerialMatmul(p);
  if (!head.rounded) Scatter(p.m, p.n, copy, to, stride);
  return status;
}

// scores(rows, keys) = q k^T for the tile of queries that starts at `first`.
absl::Status TileScores(const Head& head, const Scratch& s, int64_t first, int64_t rows, int64_t keys) {
  return SerialMatmul({.m = rows,
                       .n = keys,
                       .k = head.shape.head_size,
                       .a = head.Queries(s, first),
                       .b = Transposed(head.Keys(s)),
                       .c = Dense(s.scores, keys)});
}

// The positions that position `at` sees: first to end - 1.
struct Seen {
  int64_t first, end;
};
Seen SeenFrom(const Head& head, const int32_t* starts, int64_t at) { return {head.FirstSeen(starts, at), at + 1}; }

absl::Status ForwardHead(const Head& head, const Scratch& s, const AttentionForwardArguments& p) {
  const int64_t time = head.shape.time, tile = TileRows(head.rounded);
  head.LoadQueries(s);
  head.LoadKeysValues(s);
  absl::Status status;
  for (int64_t first = 0; first < time; first += tile) {
    const int64_t rows = std::min(tile, time - first), keys = first + rows;
    status.Update(TileScores(head, s, first, rows, keys));
    for (int64_t r = 0; r < rows; ++r) {
      float* const row = s.scores + r * keys;
      const Seen seen = SeenFrom(head, p.starts, first + r);
      p.logsumexp[head.rows_at() + first + r] =
          kernels::SoftmaxRow(seen.end - seen.first, head.scale(), row + seen.first);
      std::fill(row, row + seen.first, 0.0f);
      std::fill(row + seen.end, row + keys, 0.0f);
    }
    const Matrix probabilities = TileOperand(head, rows, keys, s.scores, s.probabilities);
    status.Update(RowsProduct(head, {.m = rows, .k = keys, .a = probabilities, .b = head.Values(s)}, s.out,
                              p.out.Offset(head.out_at() + first * head.width()), head.width()));
  }
  return status;
}

// From a tile's scores and dp = dout v^T (in dscores): scores becomes p, dscores the scores' gradient; both are 0 at
// positions that a row does not see.
void TileGradient(const Head& head, const Scratch& s, int64_t first, int64_t rows, const float* logsumexp,
                  const int32_t* starts) {
  const int64_t d = head.shape.head_size, keys = first + rows;
  for (int64_t r = 0; r < rows; ++r) {
    float *const p = s.scores + r * keys, *const dp = s.dscores + r * keys;
    const Seen seen = SeenFrom(head, starts, first + r);
    const float delta = kernels::Dot(d, s.dout + r * d, s.out + r * d);
    kernels::AttentionGradientRow(seen.end - seen.first, head.scale(), logsumexp[head.rows_at() + first + r], delta,
                                  p + seen.first, dp + seen.first);
    for (float* row : {p, dp}) {
      std::fill(row, row + seen.first, 0.0f);
      std::fill(row + seen.end, row + keys, 0.0f);
    }
  }
}

absl::Status BackwardTile(const Head& head, const Scratch& s, int64_t first, int64_t rows,
                          const AttentionBackwardArguments& p) {
  const int64_t d = head.shape.head_size, width = head.width(), keys = first + rows;
  const Tensor dout = p.dout.Offset(head.out_at() + first * width);
  Gather(rows, d, p.out.Offset(head.out_at() + first * width), width, s.out);
  Gather(rows, d, dout, width, s.dout);
  const Matrix dout_rows = head.rounded ? Matrix{dout, width} : Dense(s.dout, d);
  absl::Status status = TileScores(head, s, first, rows, keys);
  status.Update(SerialMatmul(
      {.m = rows, .n = keys, .k = d, .a = dout_rows, .b = Transposed(head.Values(s)), .c = Dense(s.dscores, keys)}));
  TileGradient(head, s, first, rows, p.logsumexp, p.starts);
  const Matrix probabilities = TileOperand(head, rows, keys, s.scores, s.probabilities),
               gradients = TileOperand(head, rows, keys, s.dscores, s.score_gradients);
  status.Update(SerialMatmul({.m = keys,
                              .n = d,
                              .k = rows,
                              .a = Transposed(probabilities),
                              .b = dout_rows,
                              .c = Dense(s.dv, d),
                              .accumulate = true}));
  status.Update(SerialMatmul({.m = keys,
                              .n = d,
                              .k = rows,
                              .a = Transposed(gradients),
                              .b = head.Queries(s, first),
                              .c = Dense(s.dk, d),
                              .accumulate = true}));
  // out is no longer needed: its place takes the tile's dq.
  const int64_t columns = head.shape.columns();
  status.Update(RowsProduct(head, {.m = rows, .k = keys, .a = gradients, .b = head.Keys(s)}, s.out,
                            p.dqkv.Offset(head.q_at() + first * columns), columns));
  return status;
}

// Processes the query heads that share a head of keys and values, in their order.
absl::Status BackwardGroup(const AttentionShape& shape, int64_t sequence, int64_t group, const Scratch& s,
                           const AttentionBackwardArguments& p) {
  const int64_t time = shape.time, d = shape.head_size, heads = shape.heads / shape.kv_heads;
  const Head first_head(shape, p.qkv, sequence, group * heads);
  const int64_t tile = TileRows(first_head.rounded);
  first_head.LoadKeysValues(s);
  for (float* gradient : {s.dk, s.dv}) std::fill(gradient, gradient + time * d, 0.0f);
  absl::Status status;
  for (int64_t index = 0; index < heads; ++index) {
    const Head head(shape, p.qkv, sequence, group * heads + index);
    head.LoadQueries(s);
    for (int64_t first = 0; first < time; first += tile) {
      status.Update(BackwardTile(head, s, first, std::min(tile, time - first), p));
    }
  }
  Scatter(time, d, s.dk, p.dqkv.Offset(first_head.k_at()), shape.columns());
  Scatter(time, d, s.dv, p.dqkv.Offset(first_head.v_at()), shape.columns());
  return status;
}

}  // namespace

void CpuOps::AttentionForward(Stream& stream, const AttentionForwardArguments& p) {
  const bool dots = p.qkv.dtype == DType::kBF16 && bf16_attention::Takes(p.shape);
  pool_.Run(p.shape.batch * p.shape.heads, [&](int64_t index, int thread) {
    const int64_t sequence = index / p.shape.heads, number = index % p.shape.heads;
    void* const scratch = ThreadScratch(p.shape, p.scratch, thread);
    if (dots) return bf16_attention::ForwardHead(p, sequence, number, scratch);
    const Head head(p.shape, p.qkv, sequence, number);
    static_cast<CpuStream&>(stream).Keep(ForwardHead(head, Scratch(p.shape, head.rounded, scratch), p));
  });
}

void CpuOps::AttentionBackward(Stream& stream, const AttentionBackwardArguments& p) {
  const bool dots = p.qkv.dtype == DType::kBF16 && bf16_attention::Takes(p.shape);
  pool_.Run(p.shape.batch * p.shape.kv_heads, [&](int64_t index, int thread) {
    const int64_t sequence = index / p.shape.kv_heads, group = index % p.shape.kv_heads;
    void* const scratch = ThreadScratch(p.shape, p.scratch, thread);
    if (dots) return bf16_attention::BackwardGroup(p, sequence, group, scratch);
    static_cast<CpuStream&>(stream).Keep(
        BackwardGroup(p.shape, sequence, group, Scratch(p.shape, IsRounded(p.qkv.dtype), scratch), p));
  });
}

int64_t CpuOps::AttentionScratchBytes(const AttentionShape& shape) const {
  return pool_.threads() * ThreadScratchBytes(shape);
}

}  // namespace zerofleet::device
