// Kernels over rows and columns of matrices (kernels.h): LayerNorm, softmax, column sums.
#include "worker/device/cpu/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/device/cpu/kernels_rows.cc"
#include "hwy/foreach_target.h"
#include "worker/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zerofleet::device::kernels::HWY_NAMESPACE {

template <typename T>
HWY_INLINE void LayerNormRowTyped(int64_t c, float epsilon, const T* x, const T* gamma, const T* beta, T* y,
                                  float* mean, float* rstd) {
  const FloatTag d;
  *mean = Sum(SumVectors(
              c, [&](int64_t i, int64_t lanes, FloatVec sum) ZF_BODY { return hn::Add(sum, Read(x + i, lanes)); })) /
          static_cast<float>(c);
  const auto mu = hn::Set(d, *mean);
  const float squares = Sum(SumVectors(c, [&](int64_t i, int64_t lanes, FloatVec sum) ZF_BODY {
    const auto centred = hn::Sub(Read(x + i, lanes, *mean), mu);
    return hn::MulAdd(centred, centred, sum);
  }));
  *rstd = 1.0f / std::sqrt(squares / static_cast<float>(c) + epsilon);
  const auto scale = hn::Set(d, *rstd);
  ForVectors(c, [&](int64_t i, int64_t lanes) ZF_BODY {
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

// With n = (x - mean) rstd and g = dy gamma: dx += (g - mean(g) - n mean(g n)) rstd. Works row by row, so that what the
// second pass reads is still in the first-level cache; that pass also adds to dgamma and dbeta, the sums over rows.
template <typename T>
HWY_INLINE void LayerNormRowGradientTyped(int64_t c, const T* dy, const T* x, const T* gamma, float mean, float rstd,
                                          T* dx, float* dgamma, float* dbeta) {
  const FloatTag d;
  const auto mu = hn::Set(d, mean), scale = hn::Set(d, rstd);
  auto sum_a = hn::Zero(d), sum_b = sum_a, dot_a = sum_a, dot_b = sum_a;
  const int64_t lanes = FloatLanes();
  const auto add = [&](int64_t i, int64_t count, FloatVec& sum, FloatVec& dot) ZF_BODY {
    const auto g = hn::Mul(Read(dy + i, count), Read(gamma + i, count));
    const auto normal = hn::Mul(hn::Sub(Read(x + i, count), mu), scale);
    sum = hn::Add(sum, g);
    dot = hn::MulAdd(g, normal, dot);
  };
  int64_t at = 0;
  for (; at + 2 * lanes <= c; at += 2 * lanes) {
    add(at, lanes, sum_a, dot_a);
    add(at + lanes, lanes, sum_b, dot_b);
  }
  for (; at + lanes <= c; at += lanes) add(at, lanes, sum_a, dot_a);
  if (at < c) add(at, c - at, sum_b, dot_b);
  const auto mean_g = hn::Set(d, Sum(hn::Add(sum_a, sum_b)) / static_cast<float>(c));
  const auto mean_gn = hn::Set(d, Sum(hn::Add(dot_a, dot_b)) / static_cast<float>(c));
  ForVectors(c, [&](int64_t i, int64_t count) ZF_BODY {
    const auto upstream = Read(dy + i, count);
    const auto g = hn::Mul(upstream, Read(gamma + i, count));
    const auto normal = hn::Mul(hn::Sub(Read(x + i, count), mu), scale);
    Write(LayerNormGradient<VectorMath>(Read(dx + i, count), g, normal, scale, mean_g, mean_gn), dx + i, count);
    Write(hn::MulAdd(upstream, normal, Read(dgamma + i, count)), dgamma + i, count);
    Write(hn::Add(Read(dbeta + i, count), upstream), dbeta + i, count);
  });
}

void LayerNormRowsGradientImpl(int64_t rows, int64_t c, Tensor dy, Tensor x, Tensor gamma, const float* mean,
                               const float* rstd, Tensor dx, float* dgamma, float* dbeta) {
  WithType(x, [&](auto* from) HWY_ATTR {
    using T = decltype(from);
    for (int64_t row = 0; row < rows; ++row) {
      LayerNormRowGradientTyped(c, static_cast<T>(dy.data) + row * c, from + row * c, static_cast<T>(gamma.data),
                                mean[row], rstd[row], static_cast<T>(dx.data) + row * c, dgamma, dbeta);
    }
  });
}

template <typename T>
HWY_INLINE void RmsNormRowTyped(int64_t c, float epsilon, const T* x, const T* gamma, T* y, float* rstd) {
  const FloatTag d;
  const float squares = Sum(SumVectors(c, [&](int64_t i, int64_t lanes, FloatVec sum) ZF_BODY {
    const auto v = Read(x + i, lanes);
    return hn::MulAdd(v, v, sum);
  }));
  *rstd = 1.0f / std::sqrt(squares / static_cast<float>(c) + epsilon);
  const auto scale = hn::Set(d, *rstd);
  ForVectors(c, [&](int64_t i, int64_t lanes) ZF_BODY {
    Write(hn::Mul(hn::Mul(Read(x + i, lanes), scale), Read(gamma + i, lanes)), y + i, lanes);
  });
}

void RmsNormRowImpl(int64_t c, float epsilon, Tensor x, Tensor gamma, Tensor y, float* rstd) {
  WithType(x, [&](auto* row) HWY_ATTR {
    using T = decltype(row);
    RmsNormRowTyped(c, epsilon, row, static_cast<T>(gamma.data), static_cast<T>(y.data), rstd);
  });
}

// With n = x rstd and g = dy gamma: dx += (g - n mean(g n)) rstd, dgamma += dy n.
template <typename T>
HWY_INLINE void RmsNormRowGradientTyped(int64_t c, const T* dy, const T* x, const T* gamma, float rstd, T* dx,
                                        float* dgamma) {
  const FloatTag d;
  const auto scale = hn::Set(d, rstd);
  const float dot = Sum(SumVectors(c, [&](int64_t i, int64_t lanes, FloatVec sum) ZF_BODY {
    const auto g = hn::Mul(Read(dy + i, lanes), Read(gamma + i, lanes));
    return hn::MulAdd(g, hn::Mul(Read(x + i, lanes), scale), sum);
  }));
  const auto mean = hn::Set(d, dot / static_cast<float>(c));
  ForVectors(c, [&](int64_t i, int64_t lanes) ZF_BODY {
    const auto upstream = Read(dy + i, lanes);
    const auto g = hn::Mul(upstream, Read(gamma + i, lanes));
    const auto normal = hn::Mul(Read(x + i, lanes), scale);
    const auto gradient = hn::Mul(hn::NegMulAdd(normal, mean, g), scale);
    Write(hn::Add(Read(dx + i, lanes), gradient), dx + i, lanes);
    Write(hn::MulAdd(upstream, normal, Read(dgamma + i, lanes)), dgamma + i, lanes);
  });
}

void RmsNormRowsGradientImpl(int64_t rows, int64_t c, Tensor dy, Tensor x, Tensor gamma, const float* rstd, Tensor dx,
                             float* dgamma) {
  WithType(x, [&](auto* from) HWY_ATTR {
    using T = decltype(from);
    for (int64_t row = 0; row < rows; ++row) {
      RmsNormRowGradientTyped(c, static_cast<T>(dy.data) + row * c, from + row * c, static_cast<T>(gamma.data),
                              rstd[row], static_cast<T>(dx.data) + row * c, dgamma);
    }
  });
}

HWY_INLINE float RowMax(int64_t count, const float* row) {
  const FloatTag d;
  const int64_t lanes = FloatLanes();
  auto a = hn::Set(d, row[0]), b = a;
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    a = hn::Max(a, Load(row + i));
    b = hn::Max(b, Load(row + i + lanes));
  }
  for (; i < count; i += lanes) a = hn::Max(a, Read(row + i, std::min(lanes, count - i), row[0]));
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(a, b)));
}

// row = exp(scale * row - shift); returns the sum.
HWY_INLINE float ExpRow(int64_t count, float scale, float shift, float* row) {
  const FloatTag d;
  const auto factor = hn::Set(d, scale), offset = hn::Set(d, shift);
  const float padding = -HUGE_VALF;  // exp of it is 0
  return Sum(SumVectors(count, [&](int64_t i, int64_t lanes, FloatVec sum) ZF_BODY {
    const auto e = Exp(hn::MulSub(factor, Read(row + i, lanes, padding), offset));
    Write(e, row + i, lanes);
    return hn::Add(sum, e);
  }));
}

template <typename T>
HWY_INLINE void ScaleRow(int64_t count, float scale, const float* row, T* to) {
  const auto factor = hn::Set(FloatTag(), scale);
  ForVectors(count,
             [&](int64_t i, int64_t lanes) ZF_BODY { Write(hn::Mul(factor, Read(row + i, lanes)), to + i, lanes); });
}

float SoftmaxRowImpl(int64_t count, float scale, float* row) {
  const float shift = scale * RowMax(count, row);
  const float sum = ExpRow(count, scale, shift, row);
  ScaleRow(count, 1.0f / sum, row, row);
  return shift + std::log(sum);
}

double CrossEntropyRowImpl(int64_t vocab, int64_t target, Tensor gradient, float gradient_scale, float* logits,
                           LogitsGradient* kept) {
  const float largest = RowMax(vocab, logits);
  if (target < 0) {
    if (gradient) std::fill_n(static_cast<std::byte*>(gradient.data), vocab * DTypeBytes(gradient.dtype), std::byte{0});
    if (kept != nullptr) *kept = {largest, 0.0f};
    return 0;
  }
  const double margin = static_cast<double>(largest) - static_cast<double>(logits[target]);
  const float sum = ExpRow(vocab, 1.0f, largest, logits);
  if (gradient) {
    const float factor = gradient_scale / sum;
    float at_target;
    ScaleRow(1, factor, logits + target, &at_target);
    WithType(gradient, [&](auto* to) HWY_ATTR {
      ScaleRow(vocab, factor, logits, to);
      to[target] = FromFloat<std::remove_pointer_t<decltype(to)>>(at_target - gradient_scale);
    });
    if (kept != nullptr) *kept = {largest, factor};
  }
  return std::log(static_cast<double>(sum)) + margin;
}

float ExpFromLargestImpl(int64_t count, float* row, float* largest) {
  *largest = RowMax(count, row);
  return ExpRow(count, 1.0f, *largest, row);
}

void ScaleImpl(int64_t count, float factor, float* row) { ScaleRow(count, factor, row, row); }

void LogitsGradientRowImpl(int64_t count, const LogitsGradient& gradient, float* row) {
  ExpRow(count, 1.0f, gradient.largest, row);
  ScaleRow(count, gradient.factor, row, row);
}

void AttentionGradientRowImpl(int64_t count, float scale, float logsumexp, float delta, float* scores, float* dp) {
  const FloatTag d;
  const auto factor = hn::Set(d, scale), shift = hn::Set(d, logsumexp), offset = hn::Set(d, delta);
  ForVectors(count, [&](int64_t i, int64_t lanes) ZF_BODY {
    const auto p = Exp(hn::MulSub(factor, Read(scores + i, lanes), shift));
    Write(p, scores + i, lanes);
    Write(hn::Mul(hn::Mul(p, hn::Sub(Read(dp + i, lanes), offset)), factor), dp + i, lanes);
  });
}

float DotImpl(int64_t count, const float* a, const float* b) {
  return Sum(SumVectors(count, [&](int64_t i, int64_t lanes, FloatVec sum)
                                   ZF_BODY { return hn::MulAdd(Read(a + i, lanes), Read(b + i, lanes), sum); }));
}

void SumRowsImpl(int64_t rows, int64_t stride, int64_t c, Tensor x, float* sums) {
  WithType(x, [&](auto* from) HWY_ATTR {
    for (int64_t row = 0; row < rows; ++row) {
      const auto* values = from + row * stride;
      ForVectors(c, [&](int64_t j, int64_t lanes)
                        ZF_BODY { Write(hn::Add(Read(sums + j, lanes), Read(values + j, lanes)), sums + j, lanes); });
    }
  });
}

void RmsNormColumnsImpl(int64_t rows, int64_t stride, int64_t c, Tensor dy, Tensor x, const float* rstd,
                        float* dgamma) {
  WithType(x, [&](auto* from) HWY_ATTR {
    const auto* upstream = static_cast<decltype(from)>(dy.data);
    for (int64_t row = 0; row < rows; ++row) {
      const auto scale = hn::Set(FloatTag(), rstd[row]);
      const int64_t at = row * stride;
      ForVectors(c, [&](int64_t j, int64_t lanes) ZF_BODY {
        const auto normal = hn::Mul(Read(from + at + j, lanes), scale);
        Write(hn::MulAdd(Read(upstream + at + j, lanes), normal, Read(dgamma + j, lanes)), dgamma + j, lanes);
      });
    }
  });
}

}  // namespace zerofleet::device::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zerofleet::device::kernels {

HWY_EXPORT(LayerNormRowImpl);
HWY_EXPORT(LayerNormRowsGradientImpl);
HWY_EXPORT(SoftmaxRowImpl);
HWY_EXPORT(CrossEntropyRowImpl);
HWY_EXPORT(ExpFromLargestImpl);
HWY_EXPORT(ScaleImpl);
HWY_EXPORT(LogitsGradientRowImpl);
HWY_EXPORT(AttentionGradientRowImpl);
HWY_EXPORT(DotImpl);
HWY_EXPORT(SumRowsImpl);
HWY_EXPORT(RmsNormRowImpl);
HWY_EXPORT(RmsNormRowsGradientImpl);
HWY_EXPORT(RmsNormColumnsImpl);

void LayerNormRow(int64_t c, float epsilon, Tensor x, Tensor gamma, Tensor beta, Tensor y, float* mean, float* rstd) {
  HWY_DYNAMIC_DISPATCH(LayerNormRowImpl)(c, epsilon, x, gamma, beta, y, mean, rstd);
}
void LayerNormRowsGradient(int64_t rows, int64_t c, Tensor dy, Tensor x, Tensor gamma, const float* mean,
                           const float* rstd, Tensor dx, float* dgamma, float* dbeta) {
  HWY_DYNAMIC_DISPATCH(LayerNormRowsGradientImpl)(rows, c, dy, x, gamma, mean, rstd, dx, dgamma, dbeta);
}
float SoftmaxRow(int64_t count, float scale, float* row) {
  return HWY_DYNAMIC_DISPATCH(SoftmaxRowImpl)(count, scale, row);
}
double CrossEntropyRow(int64_t vocab, int64_t target, Tensor gradient, float gradient_scale, float* logits,
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
void SumRows(int64_t rows, int64_t stride, int64_t c, Tensor x, float* sums) {
  HWY_DYNAMIC_DISPATCH(SumRowsImpl)(rows, stride, c, x, sums);
}
void RmsNormRow(int64_t c, float epsilon, Tensor x, Tensor gamma, Tensor y, float* rstd) {
  HWY_DYNAMIC_DISPATCH(RmsNormRowImpl)(c, epsilon, x, gamma, y, rstd);
}
void RmsNormRowsGradient(int64_t rows, int64_t c, Tensor dy, Tensor x, Tensor gamma, const float* rstd, Tensor dx,
                         float* dgamma) {
  HWY_DYNAMIC_DISPATCH(RmsNormRowsGradientImpl)(rows, c, dy, x, gamma, rstd, dx, dgamma);
}
void RmsNormColumns(int64_t rows, int64_t stride, int64_t c, Tensor dy, Tensor x, const float* rstd, float* dgamma) {
  HWY_DYNAMIC_DISPATCH(RmsNormColumnsImpl)(rows, stride, c, dy, x, rstd, dgamma);
}

}  // namespace zerofleet::device::kernels
#endif  // HWY_ONCE
