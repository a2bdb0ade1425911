// LayerNorm (ops.h; Ba, Kiros and Hinton 2016): one block per row for the forward; the backward in one pass over the
// rows (norm_backward.cuh).
//
// Legend: M rows, C columns. rms_norm.cu has the norm without a mean.
//
// Where gamma and beta are frozen, or a row is too wide for one pass (over 3072 elements in bf16), the backward has one
// block per row too, and, if wanted, sums down the columns that read dy and x again.
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
  float sums[2] = {};  // sums of g and of g normal; g is 0 past the row's end
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

// What a row adds to dgamma and dbeta, for AddColumnSums.
template <typename T, bool kWhole>
struct LayerNormColumns {
  int64_t c;
  Rows<T, kWhole> dy, x;
  const float *means, *rstds;

  __device__ void Add(int64_t row, int64_t column, int64_t left, float (&sums)[2][kRowLanes<T>]) const {
    float gradient[kRowLanes<T>], value[kRowLanes<T>];
    dy.Load(row * c + column, left, gradient);
    x.Load(row * c + column, left, value);
    const float mean = means[row], rstd = rstds[row];
    for (int lane = 0; lane < kRowLanes<T>; ++lane) {
      sums[0][lane] = std::fmaf(gradient[lane], (value[lane] - mean) * rstd, sums[0][lane]);
      sums[1][lane] += gradient[lane];
    }
  }
};

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
  if (p.m == 0) return;
  WithType(p.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    WithWhole<T>({p.dy, p.x, p.gamma, p.dx}, p.c, [&](auto whole) {
      using R = Rows<T, whole.value>;
      float* const partials = workspace_.partials<float>();
      if (p.dgamma != nullptr && TakesOnePass<T, /*kMean=*/true>(p.c)) {
        return NormBackward<T, whole.value, /*kMean=*/true>(stream, kOp, p.m, p.c, p.dy, p.x, p.gamma, p.mean, p.rstd,
                                                            p.dx, partials, {p.dgamma, p.dbeta});
      }
      Launch(stream, kOp, InputKernel<T, whole.value>, dim3(static_cast<unsigned>(p.m)), RowThreads<T>(p.c), 0, p.c,
             R(p.dy, p.c), R(p.x, p.c), R(p.gamma, p.c), p.mean, p.rstd, R(p.dx, p.c));
      if (p.dgamma == nullptr) return;
      const LayerNormColumns<T, whole.value> columns{p.c, R(p.dy, p.c), R(p.x, p.c), p.mean, p.rstd};
      AddColumnSums<T, 2>(stream, kOp, p.m, p.c, columns, partials, {p.dgamma, p.dbeta}, p.c);
    });
  });
}

}  // namespace zerofleet::device::cuda
