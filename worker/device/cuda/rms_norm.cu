// RMS norm (llama_ops.h; Zhang and Sennrich 2019) of whole rows, or of the heads in them: one block per row or head for
// the activations; for gamma's gradient, sums down the columns in two phases. The backward of whole rows takes one pass
// (norm_backward.cuh) where gamma is trained and a row is not too wide for it.
//
// Legend: M tokens, C columns. A row of queries, keys and values has H + 2G heads, of which the first H + G are normed.
//
// Estimate, forward in bf16: x is read twice, the second time from the L2 cache, and y written, 4 bytes of traffic per
// element: M = 16384, C = 4096 are 0.27 GB, 60 us on an H200. For heads of 128 elements a block is one warp, and 16
// blocks per multiprocessor keep 4 KiB in flight each.
#include <cmath>

#include "worker/device/cuda/column_sums.cuh"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/dispatch.h"
#include "worker/device/cuda/norm_backward.cuh"
#include "worker/device/cuda/reduce.cuh"
#include "worker/device/cuda/rows.cuh"
#include "worker/device/element_math.h"

namespace zerofleet::device::cuda {
namespace {

// The rows of a norm: `heads` heads of each token, from head `first` on, each of `size` elements.
struct NormRows {
  int64_t tokens, heads, first, size;
  int64_t columns;  // elements per token

  // The index of a row's first element, and that of its statistic in (heads,tokens).
  __device__ int64_t At(int64_t row) const { return row / heads * columns + (first + row % heads) * size; }
  __device__ int64_t Statistic(int64_t row) const { return (first + row % heads) * tokens + row / heads; }
};

// Which gammas a head uses, and whether it is normed at all.
struct NormedHeads {
  int64_t first, second;  // heads with the first gammas, then heads with the second; others are copied
};

template <typename T, bool kWhole>
__global__ void __launch_bounds__(kMostRowThreads)
    RmsForwardKernel(NormRows rows, NormedHeads normed, float epsilon, Rows<T, kWhole> x, Rows<T, kWhole> gammas,
                     Rows<T, kWhole> y, float* rstds) {
  constexpr int kLanes = kRowLanes<T>;
  const int64_t c = rows.size, row = blockIdx.x, at = rows.At(row), head = row % rows.heads;
  float lanes[kLanes];
  if (head >= normed.first + normed.second) {
    ForRow<T>(c, [&](int64_t i, int64_t left) {
      x.Load(at + i, left, lanes);
      y.Store(lanes, at + i, left);
    });
    return;
  }
  float squares = 0;
  ForRow<T>(c, [&](int64_t i, int64_t left) {
    x.Load(at + i, left, lanes);
    for (const float lane : lanes) squares = std::fmaf(lane, lane, squares);
  });
  const float rstd = 1.0f / std::sqrt(BlockSum(squares) / static_cast<float>(c) + epsilon);
  const int64_t gamma_at = head < normed.first ? 0 : c;
  ForRow<T>(c, [&](int64_t i, int64_t left) {
    float scale[kLanes];
    x.Load(at + i, left, lanes);
    gammas.Load(gamma_at + i, left, scale);
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = lanes[lane] * rstd * scale[lane];
    y.Store(lanes, at + i, left);
  });
  if (threadIdx.x == 0) rstds[rows.Statistic(row)] = rstd;
}

// With normal = x rstd and g = dy gamma: dx = (g - normal mean(g normal)) rstd, added to what dx holds if kAdd. dx may
// be dy.
template <typename T, bool kWhole, bool kAdd>
__global__ void __launch_bounds__(kMostRowThreads)
    RmsInputKernel(NormRows rows, NormedHeads normed, Rows<T, kWhole> dy, Rows<T, kWhole> x, Rows<T, kWhole> gammas,
                   const float* rstds, Rows<T, kWhole> dx) {
  constexpr int kLanes = kRowLanes<T>;
  const int64_t c = rows.size, row = blockIdx.x, at = rows.At(row);
  const int64_t gamma_at = row % rows.heads < normed.first ? 0 : c;
  const float rstd = rstds[rows.Statistic(row)];
  float g[kLanes], normal[kLanes];
  const auto load = [&](int64_t i, int64_t left) {
    float scale[kLanes];
    dy.Load(at + i, left, g);
    gammas.Load(gamma_at + i, left, scale);
    x.Load(at + i, left, normal);
    for (int lane = 0; lane < kLanes; ++lane) {
      g[lane] *= scale[lane];
      normal[lane] *= rstd;
    }
  };
  float sum = 0;  // g is 0 past the row's end
  ForRow<T>(c, [&](int64_t i, int64_t left) {
    load(i, left);
    for (int lane = 0; lane < kLanes; ++lane) sum = std::fmaf(g[lane], normal[lane], sum);
  });
  const float mean = BlockSum(sum) / static_cast<float>(c);
  ForRow<T>(c, [&](int64_t i, int64_t left) {
    float gradient[kLanes] = {};
    load(i, left);
    if constexpr (kAdd) dx.Load(at + i, left, gradient);
    for (int lane = 0; lane < kLanes; ++lane) {
      gradient[lane] =
          element::LayerNormGradient<element::FloatMath>(gradient[lane], g[lane], normal[lane], rstd, 0.0f, mean);
    }
    dx.Store(gradient, at + i, left);
  });
}

// What a row adds to dgamma, for AddColumnSums.
template <typename T, bool kWhole>
struct RmsNormColumns {
  NormRows rows;
  Rows<T, kWhole> dy, x;
  const float* rstds;

  __device__ void Add(int64_t row, int64_t column, int64_t left, float (&sums)[1][kRowLanes<T>]) const {
    float gradient[kRowLanes<T>], value[kRowLanes<T>];
    const int64_t at = rows.At(row) + column;
    dy.Load(at, left, gradient);
    x.Load(at, left, value);
    const float rstd = rstds[rows.Statistic(row)];
    for (int lane = 0; lane < kRowLanes<T>; ++lane) {
      sums[0][lane] = std::fmaf(gradient[lane], value[lane] * rstd, sums[0][lane]);
    }
  }
};

dim3 BlockPerRow(const NormRows& rows) { return dim3(static_cast<unsigned>(rows.tokens * rows.heads)); }

}  // namespace

void CudaOps::RmsNormForward(Stream& stream, const RmsNormForwardArguments& p) {
  const NormRows rows{.tokens = p.m, .heads = 1, .first = 0, .size = p.c, .columns = p.c};
  WithType(p.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    WithWhole<T>({p.x, p.gamma, p.y}, p.c, [&](auto whole) {
      using R = Rows<T, whole.value>;
      Launch(stream, "RmsNormForward", RmsForwardKernel<T, whole.value>, BlockPerRow(rows), RowThreads<T>(p.c), 0, rows,
             NormedHeads{1, 0}, p.epsilon, R(p.x, p.c), R(p.gamma, p.c), R(p.y, p.c), p.rstd);
    });
  });
}

void CudaOps::RmsNormBackward(Stream& stream, const RmsNormBackwardArguments& p) {
  constexpr const char* kOp = "RmsNormBackward";
  if (p.m == 0) return;
  const NormRows rows{.tokens = p.m, .heads = 1, .first = 0, .size = p.c, .columns = p.c};
  WithType(p.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    WithWhole<T>({p.dy, p.x, p.gamma, p.dx}, p.c, [&](auto whole) {
      using R = Rows<T, whole.value>;
      if (p.dgamma != nullptr && TakesOnePass<T, /*kMean=*/false>(p.c)) {
        return NormBackward<T, whole.value, /*kMean=*/false>(stream, kOp, p.m, p.c, p.dy, p.x, p.gamma, nullptr, p.rstd,
                                                             p.dx, workspace_.partials<float>(), {p.dgamma});
      }
      Launch(stream, kOp, RmsInputKernel<T, whole.value, true>, BlockPerRow(rows), RowThreads<T>(p.c), 0, rows,
             NormedHeads{1, 0}, R(p.dy, p.c), R(p.x, p.c), R(p.gamma, p.c), p.rstd, R(p.dx, p.c));
      if (p.dgamma == nullptr) return;
      const RmsNormColumns<T, whole.value> columns{rows, R(p.dy, p.c), R(p.x, p.c), p.rstd};
      AddColumnSums<T, 1>(stream, kOp, p.m, p.c, columns, workspace_.partials<float>(), {p.dgamma}, p.c);
    });
  });
}

void CudaOps::HeadNormForward(Stream& stream, const HeadNormForwardArguments& p) {
  const int64_t heads = p.heads + 2 * p.kv_heads;
  const NormRows rows{.tokens = p.m, .heads = heads, .first = 0, .size = p.head_size, .columns = heads * p.head_size};
  WithType(p.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    WithWhole<T>({p.x, p.gammas, p.y}, p.head_size, [&](auto whole) {
      using R = Rows<T, whole.value>;
      Launch(stream, "HeadNormForward", RmsForwardKernel<T, whole.value>, BlockPerRow(rows), RowThreads<T>(p.head_size),
             0, rows, NormedHeads{p.heads, p.kv_heads}, p.epsilon, R(p.x, p.head_size), R(p.gammas, p.head_size),
             R(p.y, p.head_size), p.rstd);
    });
  });
}

// Computes the gammas' gradients first, before dy is overwritten.
void CudaOps::HeadNormBackward(Stream& stream, const HeadNormBackwardArguments& p) {
  constexpr const char* kOp = "HeadNormBackward";
  const int64_t size = p.head_size, row_columns = (p.heads + 2 * p.kv_heads) * size;
  const auto rows_of = [&](int64_t first, int64_t heads) {
    return NormRows{.tokens = p.m, .heads = heads, .first = first, .size = size, .columns = row_columns};
  };
  WithType(p.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    WithWhole<T>({p.x, p.gammas, p.dy}, size, [&](auto whole) {
      using R = Rows<T, whole.value>;
      const auto add = [&](const NormRows& rows, float* dgamma) {
        const RmsNormColumns<T, whole.value> columns{rows, R(p.dy, size), R(p.x, size), p.rstd};
        AddColumnSums<T, 1>(stream, kOp, p.m * rows.heads, size, columns, workspace_.partials<float>(), {dgamma}, size);
      };
      if (p.dgammas != nullptr) {
        add(rows_of(0, p.heads), p.dgammas);
        add(rows_of(p.heads, p.kv_heads), p.dgammas + size);
      }
      const NormRows rows = rows_of(0, p.heads + p.kv_heads);
      Launch(stream, kOp, RmsInputKernel<T, whole.value, false>, BlockPerRow(rows), RowThreads<T>(size), 0, rows,
             NormedHeads{p.heads, p.kv_heads}, R(p.dy, size), R(p.x, size), R(p.gammas, size), p.rstd, R(p.dy, size));
    });
  });
}

}  // namespace zerofleet::device::cuda
