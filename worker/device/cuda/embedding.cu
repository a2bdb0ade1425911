// Token and position embeddings (ops.h), for a whole vocabulary or a part (vocabulary_ops.h): row 0 of wte belongs to
// the part's first token, and the embedding of a token that the part does not have is 0.
//
// Legend: M = B*T tokens, C columns. The backward adds in token order and without atomics: the rows of each token are
// chained, first to last, and the block at a chain's first row walks it and owns the token's row of dwte. The search
// for the next equal token goes through the tokens in tiles: at worst M^2 / 2 comparisons, of which block 0 makes M in
// sequence. 16384 tokens, 16 at a time in some 60 cycles, take 40 us on an H200. The sums read M*C gradients once: 50
// MB, 11 us, in bf16 with C = 1600. Where positions start anew with each document, the rows of each position are
// chained in the same way; otherwise it is known where they are.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/dispatch.h"
#include "worker/device/cuda/reduce.cuh"
#include "worker/device/cuda/vector.cuh"

namespace zerofleet::device::cuda {
namespace {

constexpr int kTokenLanes = 4;
constexpr int kMostThreads = 256;

// The grid is (rows, tiles of columns), with a group of kTokenLanes columns per thread.
struct Shape {
  dim3 grid, block;
};
Shape ShapeOf(int64_t rows, int64_t c) {
  const int64_t groups = CeilDivide(c, kTokenLanes);
  const int64_t threads = std::min<int64_t>(kMostThreads, RoundUp(groups, kWarp));
  return {dim3(static_cast<unsigned>(rows), static_cast<unsigned>(CeilDivide(groups, threads))),
          dim3(static_cast<unsigned>(threads))};
}

// The first column of this thread's group.
__device__ inline int64_t Column() { return (int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * kTokenLanes; }

template <typename T>
bool RowsAligned(const T* data, int64_t c) {
  return c % kTokenLanes == 0 && VectorAligned<kTokenLanes>(data);
}

template <typename T>
__global__ void __launch_bounds__(kMostThreads)
    ForwardKernel(VocabularyPart part, int64_t time, int64_t c, const int32_t* tokens, const int32_t* starts,
                  const T* wte, const T* wpe, bool vector, T* x) {
  const int64_t row = blockIdx.x, column = Column(), left = c - column;
  if (left <= 0) return;
  const int64_t token = tokens[row] - part.first;
  float of_token[kTokenLanes] = {}, of_position[kTokenLanes] = {};
  if (token >= 0 && token < part.rows) LoadLanes(wte + token * c + column, vector, left, of_token);
  const int64_t position = row % time - (starts == nullptr ? 0 : starts[row]);
  if (wpe != nullptr) LoadLanes(wpe + position * c + column, vector, left, of_position);
  for (int lane = 0; lane < kTokenLanes; ++lane) of_token[lane] += of_position[lane];
  StoreLanes(of_token, vector, left, x + row * c + column);
}

// --- Chains of rows with equal keys.

// The row of the table that a row of dx is added to: its token, or its position in its document.
struct Keys {
  const int32_t* tokens = nullptr;  // (M); null: positions
  const int32_t* starts = nullptr;  // (M)
  int32_t time = 0;

  __device__ int32_t At(int32_t row) const { return tokens != nullptr ? tokens[row] : row % time - starts[row]; }
};

constexpr int32_t kNone = -1;  // the end of a chain; no key is negative
constexpr int kLinkThreads = 256, kTile = 1024;

// Keys that a thread compares at a time: four loads of 16 bytes, one decision.
constexpr int kGroup = 16;

// The smallest k with group[k] == key, or kGroup. `group` is aligned to 16 bytes.
__device__ inline int FirstInGroup(const int32_t* group, int32_t key) {
  int first = kGroup;
  for (int k = kGroup - 4; k >= 0; k -= 4) {
    const Bits16 four = *reinterpret_cast<const Bits16*>(group + k);
    if (four.w == static_cast<uint32_t>(key)) first = k + 3;
    if (four.z == static_cast<uint32_t>(key)) first = k + 2;
    if (four.y == static_cast<uint32_t>(key)) first = k + 1;
    if (four.x == static_cast<uint32_t>(key)) first = k;
  }
  return first;
}

// next[i] = the smallest j > i with the key of i, or kNone. If there is such a j, follows[j] = 1: each j is next[i] for
// at most one i, so no two threads write the same element. `follows` must be zero before.
__global__ void __launch_bounds__(kLinkThreads) LinkKernel(int32_t m, Keys keys, int32_t* next, int32_t* follows) {
  alignas(16) __shared__ int32_t tile[kTile];
  const int thread = static_cast<int>(threadIdx.x);
  const int32_t first = static_cast<int32_t>(blockIdx.x) * kLinkThreads, i = first + thread;
  const int32_t key = i < m ? keys.At(i) : kNone;
  int32_t found = kNone;
  bool searching = i < m;
  for (int32_t begin = first; begin < m; begin += kTile) {
    for (int k = thread; k < kTile; k += kLinkThreads) tile[k] = begin + k < m ? keys.At(begin + k) : kNone;
    SyncThreads();
    // Compares one by one up to the start of a group; every tile but the first begins there.
    int k = begin <= i ? i + 1 - begin : 0;
    for (; searching && k < kTile && k % kGroup != 0; ++k) {
      if (tile[k] == key) {
        found = begin + k;
        searching = false;
      }
    }
    for (; searching && k < kTile; k += kGroup) {
      const int match = FirstInGroup(tile + k, key);
      if (match < kGroup) {
        found = begin + k + match;
        searching = false;
      }
    }
    if (BlockSum(searching ? 1 : 0) == 0) break;  // when this returns, no thread reads the tile any more
  }
  if (i >= m) return;
  next[i] = found;
  if (found != kNone) follows[found] = 1;
}

// Rows that are loaded before they are added, so that this many loads are in flight at once.
constexpr int kAhead = 8;

// Adds the rows of dx with the key of row blockIdx.x to that row of the table's gradient, if their chain begins here
// and the band, whose first row `table` points at, has the key.
template <typename T>
__global__ void __launch_bounds__(kMostThreads)
    ChainKernel(RowBand band, int64_t c, Keys keys, const int32_t* next, const int32_t* follows, const T* dx,
                bool vector_dx, float* table, bool vector_table) {
  const auto first = static_cast<int32_t>(blockIdx.x);
  const int64_t column = Column(), left = c - column, key = keys.At(first) - band.first;
  if (left <= 0 || follows[first] != 0 || key < 0 || key >= band.count) return;
  float* const to = table + key * c + column;
  float sum[kTokenLanes];
  LoadLanes(to, vector_table, left, sum);
  for (int32_t row = first; row != kNone;) {
    int32_t rows[kAhead];
    float more[kAhead][kTokenLanes];
    for (int k = 0; k < kAhead; ++k) {
      rows[k] = row;
      if (row != kNone) row = next[row];
    }
    for (int k = 0; k < kAhead; ++k) {
      if (rows[k] != kNone) LoadLanes(dx + rows[k] * c + column, vector_dx, left, more[k]);
    }
    for (int k = 0; k < kAhead; ++k) {
      for (int lane = 0; lane < kTokenLanes && rows[k] != kNone; ++lane) sum[lane] += more[k][lane];
    }
  }
  StoreLanes(sum, vector_table, left, to);
}

// Adds the rows of dx at position first + blockIdx.x, sequence by sequence, to that position's row of dwpe, whose row 0
// belongs to position `first`.
template <typename T>
__global__ void __launch_bounds__(kMostThreads)
    PositionKernel(int64_t batch, int64_t time, int64_t first, int64_t c, const T* dx, bool vector_dx, float* dwpe,
                   bool vector_dwpe) {
  const int64_t row = blockIdx.x, position = first + row, column = Column(), left = c - column;
  if (left <= 0) return;
  float* const to = dwpe + row * c + column;
  float sum[kTokenLanes], more[kTokenLanes];
  LoadLanes(to, vector_dwpe, left, sum);
  for (int64_t sequence = 0; sequence < batch; ++sequence) {
    LoadLanes(dx + (sequence * time + position) * c + column, vector_dx, left, more);
    for (int lane = 0; lane < kTokenLanes; ++lane) sum[lane] += more[lane];
  }
  StoreLanes(sum, vector_dwpe, left, to);
}

// The most tokens whose chains fit in the workspace.
constexpr int64_t kMostTokens = kPartialBytes / (2 * static_cast<int64_t>(sizeof(int32_t)));

constexpr const char* kEmbeddingBackward = "EmbeddingBackward";
constexpr VocabularyPart kEveryToken = {0, std::numeric_limits<int32_t>::max()};

// Adds the rows of dx to the rows `band` of a table's gradient that their keys name, in the order of the rows. `table`
// points at the band's first row. Each band repeats the search through all tokens: 40 us, by the estimate above.
void AddByKey(CudaOps& ops, Stream& stream, const EmbeddingBackwardArguments& p, const Keys& keys, const RowBand& band,
              float* table, int32_t* chains) {
  const int64_t m = p.batch * p.time;
  if (m > kMostTokens) {
    static_cast<CudaStream&>(stream).Keep(
        absl::InvalidArgumentError(absl::StrCat(kEmbeddingBackward, ": a micro-batch of ", m,
                                                " tokens; the cuda device takes at most ", kMostTokens, " at once")));
    return;
  }
  int32_t *const next = chains, *const follows = chains + m;
  ops.Zero(stream, follows, m * static_cast<int64_t>(sizeof(int32_t)));
  Launch(stream, kEmbeddingBackward, LinkKernel, dim3(static_cast<unsigned>(CeilDivide(m, kLinkThreads))),
         dim3(kLinkThreads), 0, static_cast<int32_t>(m), keys, next, follows);
  WithType(p.dx.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* const rows = static_cast<const T*>(p.dx.data);
    const Shape shape = ShapeOf(m, p.c);
    Launch(stream, kEmbeddingBackward, ChainKernel<T>, shape.grid, shape.block, 0, band, p.c, keys, next, follows, rows,
           RowsAligned(rows, p.c), table, RowsAligned(table, p.c));
  });
}

}  // namespace

void CudaOps::EmbeddingForward(Stream& stream, const EmbeddingForwardArguments& p) {
  PartEmbeddingForward(stream, kEveryToken, p);
}

void CudaOps::EmbeddingBackward(Stream& stream, const EmbeddingBackwardArguments& p) {
  PartEmbeddingBackward(stream, kEveryToken, p);
}

void CudaOps::PartEmbeddingForward(Stream& stream, const VocabularyPart& part, const EmbeddingForwardArguments& p) {
  const Shape shape = ShapeOf(p.batch * p.time, p.c);
  WithType(p.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* const token_rows = static_cast<const T*>(p.wte.data);
    const T* const position_rows = static_cast<const T*>(p.wpe.data);
    T* const result = static_cast<T*>(p.x.data);
    const bool vector = RowsAligned(token_rows, p.c) && RowsAligned(position_rows, p.c) && RowsAligned(result, p.c);
    Launch(stream, "EmbeddingForward", ForwardKernel<T>, shape.grid, shape.block, 0, part, p.time, p.c, p.tokens,
           p.starts, token_rows, position_rows, vector, result);
  });
}

void CudaOps::PartEmbeddingBackward(Stream& stream, const VocabularyPart& part, const EmbeddingBackwardArguments& p) {
  EmbeddingBackwardBand(stream, p, part);
  if (p.dwpe != nullptr && p.batch * p.time <= kMostTokens) PositionsBackwardBand(stream, p, {0, p.time});
}

void CudaOps::EmbeddingBackwardBand(Stream& stream, const EmbeddingBackwardArguments& p, const VocabularyPart& part) {
  AddByKey(*this, stream, p, {.tokens = p.tokens}, {part.first, part.rows}, p.dwte, workspace_.partials<int32_t>());
}

void CudaOps::PositionsBackwardBand(Stream& stream, const EmbeddingBackwardArguments& p, const RowBand& positions) {
  const int64_t count = std::min(positions.count, p.time - positions.first);
  if (count <= 0) return;  // positions beyond the batch's
  if (p.starts != nullptr) {
    const Keys keys{.starts = p.starts, .time = static_cast<int32_t>(p.time)};
    return AddByKey(*this, stream, p, keys, {positions.first, count}, p.dwpe, workspace_.partials<int32_t>());
  }
  WithType(p.dx.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* const rows = static_cast<const T*>(p.dx.data);
    const Shape shape = ShapeOf(count, p.c);
    Launch(stream, kEmbeddingBackward, PositionKernel<T>, shape.grid, shape.block, 0, p.batch, p.time, positions.first,
           p.c, rows, RowsAligned(rows, p.c), p.dwpe, RowsAligned(p.dwpe, p.c));
  });
}

}  // namespace zerofleet::device::cuda
