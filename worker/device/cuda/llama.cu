// Rotary positions and the gate of SwiGLU (llama_ops.h).
//
// Estimates in bf16: the rotation reads and writes queries and keys, 4 bytes per element, and computes one sine and
// cosine for all heads of a token; M = 16384 tokens with 40 heads of 128 are 0.34 GB, 70 us on an H200. Per element of
// y the gate reads 4 bytes and writes 2 in the forward, 6 and 4 in the backward: N = 14336 are 1.4 GB and 2.3 GB, 0.3
// and 0.5 ms.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/units.h"
#include "worker/device/cuda/attention_tiled.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/dispatch.h"
#include "worker/device/cuda/rows.cuh"
#include "worker/device/element_math.h"

namespace zerofleet::device::cuda {
namespace {

constexpr int kRotateThreads = 256;

// The frequencies, passed by value in a kernel's parameters.
struct Frequencies {
  float values[kMaxHeadSize / 2];
};

struct Rotation {
  int64_t rows, time, past;      // tokens in all, per sequence, and before each sequence
  int64_t heads, half, columns;  // a row has `columns` elements and begins with `heads` heads of 2 * half
  float sign;                    // 1, or -1 to turn back
  const int32_t* starts;         // (rows): the position that counts as 0; null: the first
};

// Sine and cosine of an angle in fp32, within 2 units in the last place of 1: the quadrant is found in fp64, exactly
// for all angles below 2^31, then polynomials fitted to [-pi/4, pi/4] are used. CUDA's own functions keep a table of pi
// in memory for angles beyond 10^5.
__device__ inline void SineAndCosine(float angle, float& sine, float& cosine) {
  const double quadrants = std::rint(static_cast<double>(angle) * 0.63661977236758134308);
  const auto r = static_cast<float>(std::fma(quadrants, -1.57079632679489661923, static_cast<double>(angle)));
  const float t = r * r;
  const float s = std::fmaf(r * t, std::fmaf(t, std::fmaf(t, -1.9587924e-4f, 8.3327489e-3f), -1.6666664e-1f), r);
  const float c = std::fmaf(t * t, std::fmaf(t, std::fmaf(t, 2.4547966e-5f, -1.3888304e-3f), 4.1666664e-2f),
                            std::fmaf(t, -0.5f, 1.0f));
  const int quadrant = static_cast<int>(static_cast<int64_t>(quadrants) & 3);
  sine = quadrant % 2 == 0 ? s : c;
  cosine = quadrant % 2 == 0 ? c : s;
  if (quadrant >= 2) sine = -sine;
  if (quadrant == 1 || quadrant == 2) cosine = -cosine;
}

// A thread turns the pairs (i, i + half) of all heads of one token.
template <typename T>
__global__ void __launch_bounds__(kRotateThreads) RotateKernel(Rotation r, Frequencies frequencies, T* x) {
  const int64_t index = int64_t{blockIdx.x} * kRotateThreads + threadIdx.x, row = index / r.half, i = index % r.half;
  if (row >= r.rows) return;
  const int64_t start = r.starts == nullptr ? 0 : r.starts[row];
  const float angle = static_cast<float>(r.past + row % r.time - start) * frequencies.values[i];
  float sine, cosine;
  SineAndCosine(angle, sine, cosine);
  sine *= r.sign;
  T* const pairs = x + row * r.columns + i;
  for (int64_t head = 0; head < r.heads; ++head) {
    T *const first = pairs + head * 2 * r.half, *const second = first + r.half;
    const float a = Widen(*first), b = Widen(*second);
    *first = Narrow<T>(std::fmaf(a, cosine, -(b * sine)));
    *second = Narrow<T>(std::fmaf(b, cosine, a * sine));
  }
}

// From -x = 87 on it is 0 in fp32, and exp would soon overflow.
__device__ inline float Sigmoid(float x) {
  using Math = element::FloatMath;
  return Math::Reciprocal(1.0f + Math::Exp(Math::Min(87.0f, -x)));
}

// One block per row of 2N elements: N to activate, then their N factors.
template <typename T, bool kWhole>
__global__ void __launch_bounds__(kMostRowThreads) GateKernel(int64_t n, Rows<T, kWhole> x, Rows<T, kWhole> y) {
  constexpr int kLanes = kRowLanes<T>;
  const int64_t row = blockIdx.x;
  ForRow<T>(n, [&](int64_t i, int64_t left) {
    float gate[kLanes], up[kLanes];
    x.Load(row * 2 * n + i, left, gate);
    x.Load(row * 2 * n + n + i, left, up);
    for (int lane = 0; lane < kLanes; ++lane) gate[lane] = gate[lane] * Sigmoid(gate[lane]) * up[lane];
    y.Store(gate, row * n + i, left);
  });
}

template <typename T, bool kWhole>
__global__ void __launch_bounds__(kMostRowThreads)
    GateGradientKernel(int64_t n, Rows<T, kWhole> x, Rows<T, kWhole> dy, Rows<T, kWhole> dx) {
  constexpr int kLanes = kRowLanes<T>;
  const int64_t row = blockIdx.x;
  ForRow<T>(n, [&](int64_t i, int64_t left) {
    float gate[kLanes], up[kLanes], gradient[kLanes];
    x.Load(row * 2 * n + i, left, gate);
    x.Load(row * 2 * n + n + i, left, up);
    dy.Load(row * n + i, left, gradient);
    for (int lane = 0; lane < kLanes; ++lane) {
      const float s = Sigmoid(gate[lane]), silu = gate[lane] * s;  // the slope of silu is s + silu (1 - s)
      up[lane] *= gradient[lane] * std::fmaf(silu, 1.0f - s, s);
      gate[lane] = gradient[lane] * silu;
    }
    dx.Store(up, row * 2 * n + i, left);
    dx.Store(gate, row * 2 * n + n + i, left);
  });
}

}  // namespace

void CudaOps::Rotate(Stream& stream, const RotateArguments& p) {
  ZF_CHECK(p.head_size <= kMaxHeadSize);
  Frequencies frequencies = {};
  std::copy(p.frequencies.begin(), p.frequencies.end(), frequencies.values);
  const Rotation rotation{.rows = p.batch * p.time,
                          .time = p.time,
                          .past = p.past,
                          .heads = p.heads,
                          .half = p.head_size / 2,
                          .columns = p.columns,
                          .sign = p.back ? -1.0f : 1.0f,
                          .starts = p.starts};
  const int64_t blocks = CeilDivide(rotation.rows * rotation.half, kRotateThreads);
  WithType(p.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    Launch(stream, "Rotate", RotateKernel<T>, dim3(static_cast<unsigned>(blocks)), dim3(kRotateThreads), 0, rotation,
           frequencies, static_cast<T*>(p.x.data));
  });
}

void CudaOps::GateForward(Stream& stream, const GateForwardArguments& p) {
  WithType(p.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    WithWhole<T>({p.x, p.y}, p.n, [&](auto whole) {
      using R = Rows<T, whole.value>;
      Launch(stream, "GateForward", GateKernel<T, whole.value>, dim3(static_cast<unsigned>(p.m)), RowThreads<T>(p.n), 0,
             p.n, R(p.x, p.n), R(p.y, p.n));
    });
  });
}

void CudaOps::GateBackward(Stream& stream, const GateBackwardArguments& p) {
  WithType(p.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    WithWhole<T>({p.x, p.dy, p.dx}, p.n, [&](auto whole) {
      using R = Rows<T, whole.value>;
      Launch(stream, "GateBackward", GateGradientKernel<T, whole.value>, dim3(static_cast<unsigned>(p.m)),
             RowThreads<T>(p.n), 0, p.n, R(p.x, p.n), R(p.dy, p.n), R(p.dx, p.n));
    });
  });
}

}  // namespace zerofleet::device::cuda
