// LayerNorm (ops.h; Ba, Kiros and Hinton 2016): one block per row for the activations; for the parameters' gradients,
// sums down the columns in two phases.
//
// Legend: M rows, C columns. What a thread adds up, and in which order, follows from M and C alone: alignment decides
// only how a group of lanes is loaded (vector.cuh), so gamma may be anywhere in a flat vector.
//
// A norm without a mean can reuse these parts: ForRow, BlockSum, and ColumnKernel without dbeta.
//
// Estimate, backward in bf16: phase one reads dy, x, dx and writes dx, phase two reads dy and x again, 12 bytes per
// element: M = 16384, C = 1600 are 0.3 GB, 70 us on an H200, less what the L2 cache still holds.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <type_traits>

#include "base/check.h"
#include "base/units.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/dispatch.h"
#include "worker/device/cuda/reduce.cuh"
#include "worker/device/cuda/vector.cuh"
#include "worker/device/element_math.h"

namespace zerofleet::device::cuda {
namespace {

constexpr int kMostRowThreads = 512;

// 16 bytes of a row.
template <typename T>
constexpr int kRowLanes = 16 / static_cast<int>(sizeof(T));

// Enough threads to give each one group of the row, up to the size of a block.
template <typename T>
dim3 RowThreads(int64_t c) {
  const int64_t groups = CeilDivide(c, kRowLanes<T>);
  return dim3(static_cast<unsigned>(std::min<int64_t>(kMostRowThreads, RoundUp(groups, kWarp))));
}

// Calls body(i, left) for each group of this thread: it starts at column i, and `left` columns remain from i on.
template <typename T, typename Body>
__device__ void ForRow(int64_t c, const Body& body) {
  for (int64_t i = int64_t{threadIdx.x} * kRowLanes<T>; i < c; i += int64_t{blockDim.x} * kRowLanes<T>) body(i, c - i);
}

// A matrix with rows of C elements, or one such row. kWhole: every group of every row is whole and aligned, for all
// matrices of a launch, so that no load waits for a branch.
template <typename T, bool kWhole>
struct Rows {
  T* data;
  bool vector;  // groups of kRowLanes are aligned in every row

  Rows(const Tensor& tensor, int64_t c) : data(static_cast<T*>(tensor.data)), vector(IsWhole(tensor, c)) {}
  static bool IsWhole(const Tensor& tensor, int64_t c) {
    return c % kRowLanes<T> == 0 && VectorAligned<kRowLanes<T>>(static_cast<const T*>(tensor.data));
  }

  __device__ void Load(int64_t at, int64_t left, float (&lanes)[kRowLanes<T>], float padding = 0.0f) const {
    if constexpr (kWhole)
      Lanes<kRowLanes<T>, T>::Load(data + at, lanes);
    else
      LoadLanes(data + at, vector, left, lanes, padding);
  }
  __device__ void Store(const float (&lanes)[kRowLanes<T>], int64_t at, int64_t left) const {
    if constexpr (kWhole)
      Lanes<kRowLanes<T>, T>::Store(lanes, data + at);
    else
      StoreLanes(lanes, vector, left, data + at);
  }
};

// Calls body with true_type as its argument where all `tensors` are whole.
template <typename T, typename Body>
void WithWhole(std::initializer_list<Tensor> tensors, int64_t c, const Body& body) {
  const bool whole = std::all_of(tensors.begin(), tensors.end(),
                                 [&](const Tensor& tensor) { return Rows<T, true>::IsWhole(tensor, c); });
  if (whole)
    body(std::true_type());
  else
    body(std::false_type());
}

template <typename T, bool kWhole>
__global__ void __launch_bounds__(kMostRowThreads)
    ForwardKernel(int64_t c, float epsilon, Rows<T, kWhole> x, Rows<T, kWhole> gamma, Rows<T, kWhole> beta,
                  Rows<T, kWhole> y, float* means, float* rstds) {
  constexpr int kLanes = kRowLanes<T>;
  const int64_t row = int64_t{blockIdx.x} * c;
  float lanes[kLanes];
  float sum = 0;
  ForRow<T>(c, [&](int64_t i, int64_t left) {
    x.Load(row + i, left, lanes);
    for (const float lane : lanes) sum += lane;
  });
  const float mean = BlockSum(sum) / static_cast<float>(c);
  float squares = 0;
  ForRow<T>(c, [&](int64_t i, int64_t left) {
    x.Load(row + i, left, lanes, mean);
    for (const float lane : lanes) squares = std::fmaf(lane - mean, lane - mean, squares);
  });
  const float rstd = 1.0f / std::sqrt(BlockSum(squares) / static_cast<float>(c) + epsilon);
  ForRow<T>(c, [&](int64_t i, int64_t left) {
    float scale[kLanes], shift[kLanes];
    x.Load(row + i, left, lanes);
    gamma.Load(i, left, scale);
    beta.Load(i, left, shift);
    for (int lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = std::fmaf((lanes[lane] - mean) * rstd, scale[lane], shift[lane]);
    }
    y.Store(lanes, row + i, left);
  });
  if (threadIdx.x == 0) {
    means[blockIdx.x] = mean;
    rstds[blockIdx.x] = rstd;
  }
}

// With normal = (x - mean) rstd and g = dy gamma: dx += (g - mean(g) - normal mean(g normal)) rstd.
template <typename T, bool kWhole>
__global__ void __launch_bounds__(kMostRowThreads)
    InputKernel(int64_t c, Rows<T, kWhole> dy, Rows<T, kWhole> x, Rows<T, kWhole> gamma, const float* means,
                const float* rstds, Rows<T, kWhole> dx) {
  constexpr int kLanes = kRowLanes<T>;
  const int64_t row = int64_t{blockIdx.x} * c;
  const float mean = means[blockIdx.x], rstd = rstds[blockIdx.x];
  float g[kLanes], normal[kLanes];
  const auto load = [&](int64_t i, int64_t left) {
    float scale[kLanes];
    dy.Load(row + i, left, g);
    gamma.Load(i, left, scale);
    x.Load(row + i, left, normal);
    for (int lane = 0; lane < kLanes; ++lane) {
      g[lane] *= scale[lane];
      normal[lane] = (normal[lane] - mean) * rstd;
    }
  };
  float sums[2] = {};  // of g, and of g normal; past the row's end g is 0
  ForRow<T>(c, [&](int64_t i, int64_t left) {
    load(i, left);
    for (int lane = 0; lane < kLanes; ++lane) {
      sums[0] += g[lane];
      sums[1] = std::fmaf(g[lane], normal[lane], sums[1]);
    }
  });
  BlockSum(sums);
  const float mean_g = sums[0] / static_cast<float>(c), mean_gn = sums[1] / static_cast<float>(c);
  ForRow<T>(c, [&](int64_t i, int64_t left) {
    float gradient[kLanes];
    load(i, left);
    dx.Load(row + i, left, gradient);
    for (int lane = 0; lane < kLanes; ++lane) {
      gradient[lane] =
          element::LayerNormGradient<element::FloatMath>(gradient[lane], g[lane], normal[lane], rstd, mean_g, mean_gn);
    }
    dx.Store(gradient, row + i, left);
  });
}

// --- dgamma and dbeta. A block takes kWarp groups of columns and a chunk of the rows, each of its warps every
// kColumnWarps-th row; its warps' sums are added in order and left as partials (chunk, 2, C), which the last kernel
// adds in order of chunks.

constexpr int kColumnWarps = 8;
constexpr int64_t kMostChunks = 128, kFewestChunkRows = 64;

template <typename T>
constexpr int kTileColumns = kWarp* kRowLanes<T>;
template <typename T>
using ColumnSums = float[2][kTileColumns<T>];  // of dgamma and dbeta

template <typename T, bool kWhole>
__global__ void __launch_bounds__(kWarp* kColumnWarps)
    ColumnKernel(int64_t m, int64_t c, int64_t chunk_rows, Rows<T, kWhole> dy, Rows<T, kWhole> x, const float* means,
                 const float* rstds, float* partials) {
  constexpr int kLanes = kRowLanes<T>;
  ColumnSums<T>* const of_warps = DynamicShared<ColumnSums<T>>();  // kColumnWarps of them
  const int lane_column = static_cast<int>(threadIdx.x) * kLanes, warp = static_cast<int>(threadIdx.y);
  const int64_t tile = int64_t{blockIdx.x} * kTileColumns<T>, left = c - tile - lane_column;
  float dgamma[kLanes] = {}, dbeta[kLanes] = {};
  if (left > 0) {
    const int64_t begin = blockIdx.y * chunk_rows, end = begin + chunk_rows < m ? begin + chunk_rows : m;
    for (int64_t row = begin + warp; row < end; row += kColumnWarps) {
      float gradient[kLanes], value[kLanes];
      dy.Load(row * c + tile + lane_column, left, gradient);
      x.Load(row * c + tile + lane_column, left, value);
      const float mean = means[row], rstd = rstds[row];
      for (int lane = 0; lane < kLanes; ++lane) {
        dgamma[lane] = std::fmaf(gradient[lane], (value[lane] - mean) * rstd, dgamma[lane]);
        dbeta[lane] += gradient[lane];
      }
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    of_warps[warp][0][lane_column + lane] = dgamma[lane];
    of_warps[warp][1][lane_column + lane] = dbeta[lane];
  }
  SyncThreads();
  for (int sum = warp * kWarp + static_cast<int>(threadIdx.x); sum < 2 * kTileColumns<T>; sum += kWarp * kColumnWarps) {
    const int which = sum / kTileColumns<T>, column = sum % kTileColumns<T>;
    float total = of_warps[0][which][column];
    for (int w = 1; w < kColumnWarps; ++w) total += of_warps[w][which][column];
    if (tile + column < c) partials[(int64_t{blockIdx.y} * 2 + which) * c + tile + column] = total;
  }
}

constexpr int kChunkSumThreads = 128;

__global__ void __launch_bounds__(kChunkSumThreads)
    ChunkSumKernel(int64_t c, int64_t chunks, const float* partials, float* dgamma, float* dbeta) {
  const int64_t column = int64_t{blockIdx.x} * kChunkSumThreads + threadIdx.x, which = blockIdx.y;
  if (column >= c) return;
  float total = 0;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) total += partials[(chunk * 2 + which) * c + column];
  (which == 0 ? dgamma : dbeta)[column] += total;
}

}  // namespace

void CudaOps::LayerNormForward(Stream& stream, const LayerNormForwardArguments& p) {
  WithType(p.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    WithWhole<T>({p.x, p.gamma, p.beta, p.y}, p.c, [&](auto whole) {
      using R = Rows<T, whole.value>;
      Launch(stream, "LayerNormForward", ForwardKernel<T, whole.value>, dim3(static_cast<unsigned>(p.m)),
             RowThreads<T>(p.c), 0, p.c, p.epsilon, R(p.x, p.c), R(p.gamma, p.c), R(p.beta, p.c), R(p.y, p.c), p.mean,
             p.rstd);
    });
  });
}

void CudaOps::LayerNormBackward(Stream& stream, const LayerNormBackwardArguments& p) {
  constexpr const char* kOp = "LayerNormBackward";
  const int64_t most_chunks = std::min(kMostChunks, kPartialBytes / (2 * p.c * static_cast<int64_t>(sizeof(float))));
  ZF_CHECK(most_chunks >= 1);
  if (p.m == 0) return;
  const int64_t chunk_rows = std::max(kFewestChunkRows, CeilDivide(p.m, most_chunks));
  const int64_t chunks = CeilDivide(p.m, chunk_rows);
  float* const partials = workspace_.partials<float>();
  WithType(p.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    WithWhole<T>({p.dy, p.x, p.gamma, p.dx}, p.c, [&](auto whole) {
      using R = Rows<T, whole.value>;
      Launch(stream, kOp, InputKernel<T, whole.value>, dim3(static_cast<unsigned>(p.m)), RowThreads<T>(p.c), 0, p.c,
             R(p.dy, p.c), R(p.x, p.c), R(p.gamma, p.c), p.mean, p.rstd, R(p.dx, p.c));
      if (p.dgamma == nullptr) return;
      Launch(stream, kOp, ColumnKernel<T, whole.value>,
             dim3(static_cast<unsigned>(CeilDivide(p.c, kTileColumns<T>)), static_cast<unsigned>(chunks)),
             dim3(kWarp, kColumnWarps), kColumnWarps * sizeof(ColumnSums<T>), p.m, p.c, chunk_rows, R(p.dy, p.c),
             R(p.x, p.c), p.mean, p.rstd, partials);
    });
  });
  if (p.dgamma == nullptr) return;
  Launch(stream, kOp, ChunkSumKernel, dim3(static_cast<unsigned>(CeilDivide(p.c, kChunkSumThreads)), 2),
         dim3(kChunkSumThreads), 0, p.c, chunks, partials, p.dgamma, p.dbeta);
}

}  // namespace zerofleet::device::cuda
