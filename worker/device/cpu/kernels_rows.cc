// Kernels over rows and columns of matrices (kernels.h): LayerNorm, softmax, column sums.
#include "worker/device/cpu/kernels.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/device/cpu/kernels_rows.cc"
#include "hwy/foreach_target.h"
#include "worker/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zerofleet::device::kernels::HWY_NAMESPACE {

// Rows whose partial sums are added to the total at once: shorter chains of fp32 additions, less rounding.
constexpr int64_t kRowsPerPartial = 64;

template <typename T>
HWY_INLINE void LayerNormRowTyped(int64_t c, float epsilon, const T* x, const T* gamma, const T* beta, T* y,
                                  float* mean, float* rstd) {
  const FloatTag d;
  auto sum = hn::Zero(d);
  ForVectors(c, [&](int64_t i, int64_t lanes) HWY_ATTR { sum = hn::Add(sum, Read(x + i, lanes)); });
  *mean = Sum(sum) / static_cast<float>(c);
  const auto mu = hn::Set(d, *mean);
  auto squares = hn::Zero(d);
  ForVectors(c, [&](int64_t i, int64_t lanes) HWY_ATTR {
    const auto centred = hn::Sub(Read(x + i, lanes, *mean), mu);
    squares = hn::MulAdd(centred, centred, squares);
  });
  *rstd = 1.0f / std::sqrt(Sum(squares) / static_cast<float>(c) + epsilon);
  const auto scale = hn::Set(d, *rstd);
  ForVectors(c, [&](int64_t i, int64_t lanes) HWY_ATTR {
    const auto normal = hn::Mul(hn::Sub(Read(x + i, lanes), mu), scale);
    Write(hn::MulAdd(normal, Read(gamma + i, lanes), Read(beta + i, lanes)), y + i, lanes);
  });
}

void LayerNormRowImpl(int64_t c, float epsilon, Tensor x, Tensor gamma, Tensor beta, Tensor y, float* mean,
                      float* rstd) {
  WithType(x, [&](auto* row) HWY_ATTR {
    using T = decltype(row);
    LayerNormRowTyped(c, epsilon, row, static_cast<T>(gamma.data), static_cast<T>(beta.data), static_cast<T>(y.data),
                      mean, rstd);
  });
}

// With n = (x - mean) rstd and g = dy gamma: dx += (g - mean(g) - n mean(g n)) rstd.
template <typename T>
HWY_INLINE void LayerNormRowGradientTyped(int64_t c, const T* dy, const T* x, const T* gamma, float mean, float rstd,
                                          T* dx) {
  const FloatTag d;
  const auto mu = hn::Set(d, mean), scale = hn::Set(d, rstd);
  auto sum = hn::Zero(d), dot = hn::Zero(d);
  ForVectors(c, [&](int64_t i, int64_t lanes) HWY_ATTR {
    const auto g = hn::Mul(Read(dy + i, lanes), Read(gamma + i, lanes));
    const auto normal = hn::Mul(hn::Sub(Read(x + i, lanes), mu), scale);
    sum = hn::Add(sum, g);
    dot = hn::MulAdd(g, normal, dot);
  });
  const auto mean_g = hn::Set(d, Sum(sum) / static_cast<float>(c));
  const auto mean_gn = hn::Set(d, Sum(dot) / static_cast<float>(c));
  ForVectors(c, [&](int64_t i, int64_t lanes) HWY_ATTR {
    const auto g = hn::Mul(Read(dy + i, lanes), Read(gamma + i, lanes));
    const auto normal = hn::Mul(hn::Sub(Read(x + i, lanes), mu), scale);
    Write(LayerNormGradient<VectorMath>(Read(dx + i, lanes), g, normal, scale, mean_g, mean_gn), dx + i, lanes);
  });
}

void LayerNormRowGradientImpl(int64_t c, Tensor dy, Tensor x, Tensor gamma, float mean, float rstd, Tensor dx) {
  WithType(x, [&](auto* row) HWY_ATTR {
    using T = decltype(row);
    LayerNormRowGradientTyped(c, static_cast<T>(dy.data), row, static_cast<T>(gamma.data), mean, rstd,
                              static_cast<T>(dx.data));
  });
}

template <typename T>
HWY_INLINE void RmsNormRowTyped(int64_t c, float epsilon, const T* x, const T* gamma, T* y, float* rstd) {
  const FloatTag d;
  auto squares = hn::Zero(d);
  ForVectors(c, [&](int64_t i, int64_t lanes) HWY_ATTR {
    const auto v = Read(x + i, lanes);
    squares = hn::MulAdd(v, v, squares);
  });
  *rstd = 1.0f / std::sqrt(Sum(squares) / static_cast<float>(c) + epsilon);
  const auto scale = hn::Set(d, *rstd);
  ForVectors(c, [&](int64_t i, int64_t lanes) HWY_ATTR {
    Write(hn::Mul(hn::Mul(Read(x + i, lanes), scale), Read(gamma + i, lanes)), y + i, lanes);
  });
}

void RmsNormRowImpl(int64_t c, float epsilon, Tensor x, Tensor gamma, Tensor y, float* rstd) {
  WithType(x, [&](auto* row) HWY_ATTR {
    using T = decltype(row);
    RmsNormRowTyped(c, epsilon, row, static_cast<T>(gamma.data), static_cast<T>(y.data), rstd);
  });
}

// With n = x rstd and g = dy gamma: dx += (g - n mean(g n)) rstd.
template <typename T>
HWY_INLINE void RmsNormRowGradientTyped(int64_t c, const T* dy, const T* x, const T* gamma, float rstd, T* dx) {
  const FloatTag d;
  const auto scale = hn::Set(d, rstd);
  auto dot = hn::Zero(d);
  ForVectors(c, [&](int64_t i, int64_t lanes) HWY_ATTR {
    const auto g = hn::Mul(Read(dy + i, lanes), Read(gamma + i, lanes));
    dot = hn::MulAdd(g, hn::Mul(Read(x + i, lanes), scale), dot);
  });
  const auto mean = hn::Set(d, Sum(dot) / static_cast<float>(c));
  ForVectors(c, [&](int64_t i, int64_t lanes) HWY_ATTR {
    const auto g = hn::Mul(Read(dy + i, lanes), Read(gamma + i, lanes));
    const auto normal = hn::Mul(Read(x + i, lanes), scale);
    const auto gradient = hn::Mul(hn::NegMulAdd(normal, mean, g), scale);
    Write(hn::Add(Read(dx + i, lanes), gradient), dx + i, lanes);
  });
}

void RmsNormRowGradientImpl(int64_t c, Tensor dy, Tensor x, Tensor gamma, float rstd, Tensor dx) {
  WithType(x, [&](auto* row) HWY_ATTR {
    using T = decltype(row);
    RmsNormRowGradientTyped(c, static_cast<T>(dy.data), row, static_cast<T>(gamma.data), rstd, static_cast<T>(dx.data));
  });
}

HWY_INLINE float RowMax(int64_t count, const float* row) {
  const FloatTag d;
  auto largest = hn::Set(d, row[0]);
  ForVectors(count,
             [&](int64_t i, int64_t lanes) HWY_ATTR { largest = hn::Max(largest, Read(row + i, lanes, row[0])); });
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

// row = exp(scale * row - shift); returns the sum.
HWY_INLINE float ExpRow(int64_t count, float scale, float shift, float* row) {
  const FloatTag d;
  const auto factor = hn::Set(d, scale), offset = hn::Set(d, shift);
  auto sum = hn::Zero(d);
  const float padding = -HUGE_VALF;  // exp of it is 0
  ForVectors(count, [&](int64_t i, int64_t lanes) HWY_ATTR {
    const auto e = ExpKeepNaN(hn::MulSub(factor, Read(row + i, lanes, padding), offset));
    sum = hn::Add(sum, e);
    Write(e, row + i, lanes);
  });
  return Sum(sum);
}

HWY_INLINE void ScaleRow(int64_t count, float scale, float* row) {
  const auto factor = hn::Set(FloatTag(), scale);
  ForVectors(count,
             [&](int64_t i, int64_t lanes) HWY_ATTR { Write(hn::Mul(factor, Read(row + i, lanes)), row + i, lanes); });
}

float SoftmaxRowImpl(int64_t count, float scale, float* row) {
  const float shift = scale * RowMax(count, row);
  const float sum = ExpRow(count, scale, shift, row);
  ScaleRow(count, 1.0f / sum, row);
  return shift + std::log(sum);
}

double CrossEntropyRowImpl(int64_t vocab, int64_t target, bool gradient, float gradient_scale, float* logits,
                           LogitsGradient* kept) {
  const float largest = RowMax(vocab, logits);
  if (target < 0) {
    if (gradient) std::fill_n(logits, vocab, 0.0f);
    if (kept != nullptr) *kept = {largest, 0.0f};
    return 0;
  }
  const double margin = static_cast<double>(largest) - static_cast<double>(logits[target]);
  const float sum = ExpRow(vocab, 1.0f, largest, logits);
  if (gradient) {
    const float factor = gradient_scale / sum;
    ScaleRow(vocab, factor, logits);
    logits[target] -= gradient_scale;
    if (kept != nullptr) *kept = {largest, factor};
  }
  return std::log(static_cast<double>(sum)) + margin;
}

float ExpFromLargestImpl(int64_t count, float* row, float* largest) {
  *largest = RowMax(count, row);
  return ExpRow(count, 1.0f, *largest, row);
}

void ScaleImpl(int64_t count, float factor, float* row) { ScaleRow(count, factor, row); }

void LogitsGradientRowImpl(int64_t count, const LogitsGradient& gradient, float* row) {
  ExpRow(count, 1.0f, gradient.largest, row);
  ScaleRow(count, gradient.factor, row);
}

void AttentionGradientRowImpl(int64_t count, float scale, float logsumexp, float delta, float* scores, float* dp) {
  const FloatTag d;
  const auto factor = hn::Set(d, scale), shift = hn::Set(d, logsumexp), offset = hn::Set(d, delta);
  ForVectors(count, [&](int64_t i, int64_t lanes) HWY_ATTR {
    const auto p = ExpKeepNaN(hn::MulSub(factor, Read(scores + i, lanes), shift));
    Write(p, scores + i, lanes);
    Write(hn::Mul(hn::Mul(p, hn::Sub(Read(dp + i, lanes), offset)), factor), dp + i, lanes);
  });
}

float DotImpl(int64_t count, const float* a, const float* b) {
  auto sum = hn::Zero(FloatTag());
  ForVectors(count,
             [&](int64_t i, int64_t lanes) HWY_ATTR { sum = hn::MulAdd(Read(a + i, lanes), Read(b + i, lanes), sum); });
  return Sum(sum);
}

// Adds `partial` to `total` and clears it.
HWY_INLINE void Flush(int64_t count, float* partial, float* total) {
  for (int64_t j = 0; j < count; ++j) {
    total[j] += partial[j];
    partial[j] = 0.0f;
  }
}

void ColumnSumsImpl(int64_t m, int64_t stride, int64_t begin, int64_t end, Tensor dy, float* sums) {
  HWY_ALIGN float partial[kColumnBlock + kMaxLanes] = {};
  float total[kColumnBlock] = {};
  const int64_t width = end - begin;
  WithType(dy, [&](auto* from) HWY_ATTR {
    for (int64_t row = 0; row < m; ++row) {
      const auto* values = from + row * stride + begin;
      ForVectors(width, [&](int64_t j, int64_t lanes)
                            HWY_ATTR { Store(hn::Add(Load(partial + j), Read(values + j, lanes)), partial + j); });
      if ((row + 1) % kRowsPerPartial == 0) Flush(width, partial, total);
    }
  });
  Flush(width, partial, total);
  for (int64_t j = 0; j < width; ++j) sums[begin + j] += total[j];
}

void LayerNormColumnsImpl(int64_t m, int64_t stride, int64_t begin, int64_t end, Tensor dy, Tensor x, const float* mean,
                          const float* rstd, float* dgamma, float* dbeta) {
  HWY_ALIGN float partial_gamma[kColumnBlock + kMaxLanes] = {}, partial_beta[kColumnBlock + kMaxLanes] = {};
  float total_gamma[kColumnBlock] = {}, total_beta[kColumnBlock] = {};
  const int64_t width = end - begin;
  WithType(x, [&](auto* from) HWY_ATTR {
    const FloatTag d;
    const auto* upstream = static_cast<decltype(from)>(dy.data);
    for (int64_t row = 0; row < m; ++row) {
      const auto mu = hn::Set(d, mean[row]), scale = hn::Set(d, rstd[row]);
      const int64_t at = row * stride + begin;
      ForVectors(width, [&](int64_t j, int64_t lanes) HWY_ATTR {
        const auto g = Read(upstream + at + j, lanes);
        const auto normal = hn::Mul(hn::Sub(Read(from + at + j, lanes), mu), scale);
        Store(hn::MulAdd(g, normal, Load(partial_gamma + j)), partial_gamma + j);
        Store(hn::Add(Load(partial_beta + j), g), partial_beta + j);
      });
      if ((row + 1) % kRowsPerPartial != 0) continue;
      Flush(width, partial_gamma, total_gamma);
      Flush(width, partial_beta, total_beta);
    }
  });
  Flush(width, partial_gamma, total_gamma);
  Flush(width, partial_beta, total_beta);
  for (int64_t j = 0; j < width; ++j) {
    dgamma[begin + j] += total_gamma[j];
    dbeta[begin + j] += total_beta[j];
  }
}

void RmsNormColumnsImpl(int64_t m, int64_t stride, int64_t begin, int64_t end, Tensor dy, Tensor x, const float* rstd,
                        float* dgamma) {
  HWY_ALIGN float partial[kColumnBlock + kMaxLanes] = {};
  float total[kColumnBlock] = {};
  const int64_t width = end - begin;
  WithType(x, [&](auto* from) HWY_ATTR {
    const auto* upstream = static_cast<decltype(from)>(dy.data);
    for (int64_t row = 0; row < m; ++row) {
      const auto scale = hn::Set(FloatTag(), rstd[row]);
      const int64_t at = row * stride + begin;
      ForVectors(width, [&](int64_t j, int64_t lanes) HWY_ATTR {
        const auto normal = hn::Mul(Read(from + at + j, lanes), scale);
        Store(hn::MulAdd(Read(upstream + at + j, lanes), normal, Load(partial + j)), partial + j);
      });
      if ((row + 1) % kRowsPerPartial == 0) Flush(width, partial, total);
    }
  });
  Flush(width, partial, total);
  for (int64_t j = 0; j < width; ++j) dgamma[begin + j] += total[j];
}

}  // namespace zerofleet::device::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zerofleet::device::kernels {

HWY_EXPORT(LayerNormRowImpl);
HWY_EXPORT(LayerNormRowGradientImpl);
HWY_EXPORT(SoftmaxRowImpl);
HWY_EXPORT(CrossEntropyRowImpl);
HWY_EXPORT(ExpFromLargestImpl);
HWY_EXPORT(ScaleImpl);
HWY_EXPORT(LogitsGradientRowImpl);
HWY_EXPORT(AttentionGradientRowImpl);
HWY_EXPORT(DotImpl);
HWY_EXPORT(ColumnSumsImpl);
HWY_EXPORT(LayerNormColumnsImpl);
HWY_EXPORT(RmsNormRowImpl);
HWY_EXPORT(RmsNormRowGradientImpl);
HWY_EXPORT(RmsNormColumnsImpl);

void LayerNormRow(int64_t c, float epsilon, Tensor x, Tensor gamma, Tensor beta, Tensor y, float* mean, float* rstd) {
  HWY_DYNAMIC_DISPATCH(LayerNormRowImpl)(c, epsilon, x, gamma, beta, y, mean, rstd);
}
void LayerNormRowGradient(int64_t c, Tensor dy, Tensor x, Tensor gamma, float mean, float rstd, Tensor dx) {
  HWY_DYNAMIC_DISPATCH(LayerNormRowGradientImpl)(c, dy, x, gamma, mean, rstd, dx);
}
float SoftmaxRow(int64_t count, float scale, float* row) {
  return HWY_DYNAMIC_DISPATCH(SoftmaxRowImpl)(count, scale, row);
}
double CrossEntropyRow(int64_t vocab, int64_t target, bool gradient, float gradient_scale, float* logits,
                       LogitsGradient* kept) {
  return HWY_DYNAMIC_DISPATCH(CrossEntropyRowImpl)(vocab, target, gradient, gradient_scale, logits, kept);
}
void LogitsGradientRow(int64_t count, const LogitsGradient& gradient, float* row) {
  HWY_DYNAMIC_DISPATCH(LogitsGradientRowImpl)(count, gradient, row);
}
float ExpFromLargest(int64_t count, float* row, float* largest) {
  return HWY_DYNAMIC_DISPATCH(ExpFromLargestImpl)(count, row, largest);
}
void Scale(int64_t count, float factor, float* row) { HWY_DYNAMIC_DISPATCH(ScaleImpl)(count, factor, row); }
void AttentionGradientRow(int64_t count, float scale, float logsumexp, float delta, float* scores, float* dp) {
  HWY_DYNAMIC_DISPATCH(AttentionGradientRowImpl)(count, scale, logsumexp, delta, scores, dp);
}
float Dot(int64_t count, const float* a, const float* b) { return HWY_DYNAMIC_DISPATCH(DotImpl)(count, a, b); }
void ColumnSums(int64_t m, int64_t stride, int64_t begin, int64_t end, Tensor dy, float* sums) {
  HWY_DYNAMIC_DISPATCH(ColumnSumsImpl)(m, stride, begin, end, dy, sums);
}
void LayerNormColumns(int64_t m, int64_t stride, int64_t begin, int64_t end, Tensor dy, Tensor x, const float* mean,
                      const float* rstd, float* dgamma, float* dbeta) {
  HWY_DYNAMIC_DISPATCH(LayerNormColumnsImpl)(m, stride, begin, end, dy, x, mean, rstd, dgamma, dbeta);
}

void RmsNormRow(int64_t c, float epsilon, Tensor x, Tensor gamma, Tensor y, float* rstd) {
  HWY_DYNAMIC_DISPATCH(RmsNormRowImpl)(c, epsilon, x, gamma, y, rstd);
}
void RmsNormRowGradient(int64_t c, Tensor dy, Tensor x, Tensor gamma, float rstd, Tensor dx) {
  HWY_DYNAMIC_DISPATCH(RmsNormRowGradientImpl)(c, dy, x, gamma, rstd, dx);
}
void RmsNormColumns(int64_t m, int64_t stride, int64_t begin, int64_t end, Tensor dy, Tensor x, const float* rstd,
                    float* dgamma) {
  HWY_DYNAMIC_DISPATCH(RmsNormColumnsImpl)(m, stride, begin, end, dy, x, rstd, dgamma);
}

}  // namespace zerofleet::device::kernels
#endif  // HWY_ONCE
