// Causal self-attention (ops.h) without a (T,T) matrix, after FlashAttention (Dao et al. 2022).
//
// One task is one head of one sequence; in the backward, all query heads that share a head of keys and values. A task
// copies the head's queries, keys and values into fp32 scratch, then walks tiles of kRows queries. A tile sees the keys
// up to its own last row, so no more than its scores (kRows x keys) are held at a time, and the softmax of a row is
// computed at once. The backward computes the probabilities again from logsumexp.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/units.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/cpu_stream.h"
#include "worker/device/cpu/kernels.h"
#include "worker/device/cpu/matmul.h"

namespace zerofleet::device {
namespace {

constexpr int64_t kRows = 64;         // queries per tile
constexpr int64_t kAlignFloats = 16;  // scratch parts start on a cache line

// One thread's part of the scratch, in floats. Only the backward uses the last four.
struct Scratch {
  float *q, *k, *v;       // (T,D)
  float *scores, *out;    // (kRows,T), (kRows,D)
  float *dk, *dv;         // (T,D)
  float *dscores, *dout;  // (kRows,T), (kRows,D)
};

// Sizes of the parts in floats: a head's (T,D), a tile's scores, and a tile's rows.
struct ScratchSizes {
  int64_t head, tile, rows;
  explicit ScratchSizes(const AttentionShape& s)
      : head(RoundUp(s.time * s.head_size, kAlignFloats)),
        tile(kRows * RoundUp(s.time, kAlignFloats)),
        rows(kRows * RoundUp(s.head_size, kAlignFloats)) {}
  int64_t thread() const { return 5 * head + 2 * tile + 2 * rows; }
};

Scratch ScratchOf(const AttentionShape& shape, void* scratch, int thread) {
  const ScratchSizes sizes(shape);
  float* at = static_cast<float*>(scratch) + thread * sizes.thread();
  const auto take = [&](int64_t floats) { return std::exchange(at, at + floats); };
  Scratch s;
  for (float** head : {&s.q, &s.k, &s.v, &s.dk, &s.dv}) *head = take(sizes.head);
  for (float** tile : {&s.scores, &s.dscores}) *tile = take(sizes.tile);
  for (float** rows : {&s.out, &s.dout}) *rows = take(sizes.rows);
  return s;
}

Matrix Dense(float* data, int64_t stride, bool transposed = false) { return {{data, DType::kF32}, stride, transposed}; }

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

// One head of one sequence, and its place in the op's tensors.
class Head {
 public:
  Head(const AttentionShape& of, int64_t in_sequence, int64_t number)
      : shape(of), sequence(in_sequence), head(number) {}

  const AttentionShape& shape;
  const int64_t sequence, head;

  int64_t width() const { return shape.heads * shape.head_size; }
  int64_t out_at() const { return sequence * shape.time * width() + head * shape.head_size; }
  int64_t rows_at() const { return (sequence * shape.heads + head) * shape.time; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape.head_size)); }

  // Where a token's row holds this head's queries, and its group's keys and values.
  int64_t q_at() const { return At(head); }
  int64_t k_at() const { return At(shape.heads + group()); }
  int64_t v_at() const { return At(shape.heads + shape.kv_heads + group()); }

  void LoadQueries(Tensor qkv, const Scratch& s) const { Load(qkv, q_at(), s.q); }
  void LoadKeysValues(Tensor qkv, const Scratch& s) const {
    Load(qkv, k_at(), s.k);
    Load(qkv, v_at(), s.v);
  }

 private:
  int64_t group() const { return head / (shape.heads / shape.kv_heads); }
  int64_t At(int64_t section) const { return sequence * shape.time * shape.columns() + section * shape.head_size; }
  void Load(Tensor qkv, int64_t at, float* to) const {
    Gather(shape.time, shape.head_size, qkv.Offset(at), shape.columns(), to);
  }
};

// scores(rows, keys) = q k^T for the tile of queries that starts at `first`.
absl::Status TileScores(const Head& head, const Scratch& s, int64_t first, int64_t rows, int64_t keys) {
  const int64_t d = head.shape.head_size;
  return SerialMatmul({.m = rows,
                       .n = keys,
                       .k = d,
                       .a = Dense(s.q + first * d, d),
                       .b = Dense(s.k, d, true),
                       .c = Dense(s.scores, keys)});
}

// The positions that position `at` sees: first to end - 1.
struct Seen {
  int64_t first, end;
};
Seen SeenFrom(const Head& head, const int32_t* starts, int64_t at) {
  return {starts == nullptr ? 0 : starts[head.sequence * head.shape.time + at], at + 1};
}

absl::Status ForwardHead(const Head& head, const Scratch& s, const AttentionForwardArguments& p) {
  const int64_t time = head.shape.time, d = head.shape.head_size;
  head.LoadQueries(p.qkv, s);
  head.LoadKeysValues(p.qkv, s);
  absl::Status status;
  for (int64_t first = 0; first < time; first += kRows) {
    const int64_t rows = std::min(kRows, time - first), keys = first + rows;
    status.Update(TileScores(head, s, first, rows, keys));
    for (int64_t r = 0; r < rows; ++r) {
      float* const row = s.scores + r * keys;
      const Seen seen = SeenFrom(head, p.starts, first + r);
      p.logsumexp[head.rows_at() + first + r] =
          kernels::SoftmaxRow(seen.end - seen.first, head.scale(), row + seen.first);
      std::fill(row, row + seen.first, 0.0f);
      std::fill(row + seen.end, row + keys, 0.0f);
    }
    status.Update(SerialMatmul(
        {.m = rows, .n = d, .k = keys, .a = Dense(s.scores, keys), .b = Dense(s.v, d), .c = Dense(s.out, d)}));
    Scatter(rows, d, s.out, p.out.Offset(head.out_at() + first * head.width()), head.width());
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
  Gather(rows, d, p.out.Offset(head.out_at() + first * width), width, s.out);
  Gather(rows, d, p.dout.Offset(head.out_at() + first * width), width, s.dout);
  absl::Status status = TileScores(head, s, first, rows, keys);
  status.Update(SerialMatmul(
      {.m = rows, .n = keys, .k = d, .a = Dense(s.dout, d), .b = Dense(s.v, d, true), .c = Dense(s.dscores, keys)}));
  TileGradient(head, s, first, rows, p.logsumexp, p.starts);
  status.Update(SerialMatmul({.m = keys,
                              .n = d,
                              .k = rows,
                              .a = Dense(s.scores, keys, true),
                              .b = Dense(s.dout, d),
                              .c = Dense(s.dv, d),
                              .accumulate = true}));
  status.Update(SerialMatmul({.m = keys,
                              .n = d,
                              .k = rows,
                              .a = Dense(s.dscores, keys, true),
                              .b = Dense(s.q + first * d, d),
                              .c = Dense(s.dk, d),
                              .accumulate = true}));
  // out is no longer needed: its place takes the tile's dq.
  status.Update(SerialMatmul(
      {.m = rows, .n = d, .k = keys, .a = Dense(s.dscores, keys), .b = Dense(s.k, d), .c = Dense(s.out, d)}));
  const int64_t columns = head.shape.columns();
  Scatter(rows, d, s.out, p.dqkv.Offset(head.q_at() + first * columns), columns);
  return status;
}

// Processes the query heads that share a head of keys and values, in their order.
absl::Status BackwardGroup(const AttentionShape& shape, int64_t sequence, int64_t group, const Scratch& s,
                           const AttentionBackwardArguments& p) {
  const int64_t time = shape.time, d = shape.head_size, heads = shape.heads / shape.kv_heads;
  const Head first_head(shape, sequence, group * heads);
  first_head.LoadKeysValues(p.qkv, s);
  for (float* gradient : {s.dk, s.dv}) std::fill(gradient, gradient + time * d, 0.0f);
  absl::Status status;
  for (int64_t index = 0; index < heads; ++index) {
    const Head head(shape, sequence, group * heads + index);
    head.LoadQueries(p.qkv, s);
    for (int64_t first = 0; first < time; first += kRows) {
      status.Update(BackwardTile(head, s, first, std::min(kRows, time - first), p));
    }
  }
  Scatter(time, d, s.dk, p.dqkv.Offset(first_head.k_at()), shape.columns());
  Scatter(time, d, s.dv, p.dqkv.Offset(first_head.v_at()), shape.columns());
  return status;
}

}  // namespace

void CpuOps::AttentionForward(Stream& stream, const AttentionForwardArguments& p) {
  pool_.Run(p.shape.batch * p.shape.heads, [&](int64_t index, int thread) {
    const Head head(p.shape, index / p.shape.heads, index % p.shape.heads);
    static_cast<CpuStream&>(stream).Keep(ForwardHead(head, ScratchOf(p.shape, p.scratch, thread), p));
  });
}

void CpuOps::AttentionBackward(Stream& stream, const AttentionBackwardArguments& p) {
  pool_.Run(p.shape.batch * p.shape.kv_heads, [&](int64_t index, int thread) {
    static_cast<CpuStream&>(stream).Keep(BackwardGroup(p.shape, index / p.shape.kv_heads, index % p.shape.kv_heads,
                                                       ScratchOf(p.shape, p.scratch, thread), p));
  });
}

int64_t CpuOps::AttentionScratchBytes(const AttentionShape& shape) const {
  return pool_.threads() * ScratchSizes(shape).thread() * static_cast<int64_t>(sizeof(float));
}

}  // namespace zerofleet::device
