// Element-wise kernels (kernels.h): GELU, sums, conversions, AdamW.
#include "worker/device/cpu/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/device/cpu/kernels_elementwise.cc"
#include "hwy/foreach_target.h"
#include "worker/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zerofleet::kernels::HWY_NAMESPACE {

// gelu(x) = x * sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3), since (1 + tanh u) / 2 = sigmoid(2u).
constexpr float kTwoSqrtTwoOverPi = 1.5957691216057308f;
constexpr float kCubic = 0.044715f;

HWY_INLINE FloatVec GeluSigmoid(FloatVec x, FloatVec x_squared) {
  const FloatTag d;
  const auto twice_u = hn::Mul(hn::Mul(hn::Set(d, kTwoSqrtTwoOverPi), x),
                               hn::MulAdd(hn::Set(d, kCubic), x_squared, hn::Set(d, 1.0f)));
  // Past 87 the sigmoid is 0 in fp32, and exp would overflow.
  const auto exponential = hn::Exp(d, hn::Min(hn::Set(d, 87.0f), hn::Neg(twice_u)));
  return hn::Div(hn::Set(d, 1.0f), hn::Add(hn::Set(d, 1.0f), exponential));
}

void GeluImpl(int64_t count, Tensor x, Tensor y) {
  WithType(x, [&](auto* from) HWY_ATTR {
    auto* to = static_cast<decltype(from)>(y.data);
    ForVectors(count, [&](int64_t i, int64_t lanes) HWY_ATTR {
      const auto v = Read(from + i, lanes);
      Write(hn::Mul(v, GeluSigmoid(v, hn::Mul(v, v))), to + i, lanes);
    });
  });
}

void GeluGradientImpl(int64_t count, Tensor x, Tensor dy, Tensor dx) {
  WithType(x, [&](auto* from) HWY_ATTR {
    const auto* upstream = static_cast<decltype(from)>(dy.data);
    auto* to = static_cast<decltype(from)>(dx.data);
    ForVectors(count, [&](int64_t i, int64_t lanes) HWY_ATTR {
      const FloatTag d;
      const auto v = Read(from + i, lanes);
      const auto squared = hn::Mul(v, v);
      const auto s = GeluSigmoid(v, squared);
      const auto one = hn::Set(d, 1.0f);
      const auto inner = hn::Mul(hn::Set(d, kTwoSqrtTwoOverPi), hn::MulAdd(hn::Set(d, 3.0f * kCubic), squared, one));
      const auto slope = hn::MulAdd(hn::Mul(v, hn::Mul(s, hn::Sub(one, s))), inner, s);
      Write(hn::Mul(Read(upstream + i, lanes), slope), to + i, lanes);
    });
  });
}

void AddImpl(int64_t count, Tensor a, Tensor b, Tensor y) {
  WithType(a, [&](auto* left) HWY_ATTR {
    const auto* right = static_cast<decltype(left)>(b.data);
    auto* to = static_cast<decltype(left)>(y.data);
    ForVectors(count, [&](int64_t i, int64_t lanes) HWY_ATTR {
      Write(hn::Add(Read(left + i, lanes), Read(right + i, lanes)), to + i, lanes);
    });
  });
}

void ConvertImpl(int64_t count, Tensor from, Tensor to) {
  WithType(from, [&](auto* source) HWY_ATTR {
    WithType(to, [&](auto* target) HWY_ATTR {
      ForVectors(count, [&](int64_t i, int64_t lanes) HWY_ATTR { Write(Read(source + i, lanes), target + i, lanes); });
    });
  });
}

void AccumulateImpl(int64_t count, Tensor from, float* accumulator) {
  WithType(from, [&](auto* source) HWY_ATTR {
    ForVectors(count, [&](int64_t i, int64_t lanes) HWY_ATTR {
      Write(hn::Add(Read(accumulator + i, lanes), Read(source + i, lanes)), accumulator + i, lanes);
    });
  });
}

double SumSquaresImpl(int64_t count, Tensor x) {
  constexpr int64_t kSums = 16;
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, hn::ScalableTag<double>> half;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN double sums[kSums] = {};
  HWY_ALIGN float values[kSums];
  WithType(x, [&](auto* source) HWY_ATTR {
    for (int64_t i = 0; i < count; i += kSums) {
      const float* row = values;
      if constexpr (std::is_same_v<decltype(source), float*>) {
        if (i + kSums <= count) row = source + i;
      }
      if (row == values) {
        for (int64_t j = 0; j < kSums; ++j) values[j] = i + j < count ? ToFloat(source[i + j]) : 0.0f;
      }
      for (int64_t j = 0; j < kSums; j += lanes) {
        const auto v = hn::PromoteTo(d, hn::LoadU(half, row + j));
        // The square of a float is exact in double, so that fused or not makes no difference.
        hn::Store(hn::MulAdd(v, v, hn::Load(d, sums + j)), d, sums + j);
      }
    }
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

template <typename G, typename P>
HWY_INLINE void AdamWTyped(int64_t count, const AdamWFactors& f, const G* gradient, float* master, float* exp_avg,
                           float* exp_avg_sq, P* parameter) {
  const FloatTag d;
  const auto scale = hn::Set(d, f.gradient_scale), one_minus_beta1 = hn::Set(d, f.one_minus_beta1);
  const auto beta2 = hn::Set(d, f.beta2), one_minus_beta2 = hn::Set(d, f.one_minus_beta2);
  const auto decay = hn::Set(d, f.decay), step_size = hn::Set(d, f.step_size);
  const auto sqrt_correction2 = hn::Set(d, f.sqrt_correction2), epsilon = hn::Set(d, f.epsilon);
  ForVectors(count, [&](int64_t i, int64_t lanes) HWY_ATTR {
    const auto g = hn::Mul(Read(gradient + i, lanes), scale);
    auto m = Read(exp_avg + i, lanes);
    m = hn::MulAdd(hn::Sub(g, m), one_minus_beta1, m);
    auto v = Read(exp_avg_sq + i, lanes);
    v = hn::MulAdd(hn::Mul(g, g), one_minus_beta2, hn::Mul(v, beta2));
    const auto denominator = hn::Add(hn::Div(hn::Sqrt(v), sqrt_correction2), epsilon);
    auto p = hn::Mul(Read(master + i, lanes), decay);
    p = hn::Sub(p, hn::Div(hn::Mul(step_size, m), denominator));
    Write(m, exp_avg + i, lanes);
    Write(v, exp_avg_sq + i, lanes);
    Write(p, master + i, lanes);
    if constexpr (std::is_same_v<P, float>) {
      if (parameter != master) Write(p, parameter + i, lanes);
    } else {
      Write(p, parameter + i, lanes);
    }
  });
}

void AdamWImpl(int64_t count, const AdamWFactors& factors, Tensor gradient, float* master, float* exp_avg,
               float* exp_avg_sq, Tensor parameter) {
  WithType(gradient, [&](auto* g) HWY_ATTR {
    WithType(parameter, [&](auto* p) HWY_ATTR { AdamWTyped(count, factors, g, master, exp_avg, exp_avg_sq, p); });
  });
}

const char* TargetNameImpl() { return hwy::TargetName(HWY_TARGET); }

}  // namespace zerofleet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zerofleet::kernels {

HWY_EXPORT(GeluImpl);
HWY_EXPORT(GeluGradientImpl);
HWY_EXPORT(AddImpl);
HWY_EXPORT(ConvertImpl);
HWY_EXPORT(AccumulateImpl);
HWY_EXPORT(SumSquaresImpl);
HWY_EXPORT(AdamWImpl);
HWY_EXPORT(TargetNameImpl);

void Gelu(int64_t count, Tensor x, Tensor y) { HWY_DYNAMIC_DISPATCH(GeluImpl)(count, x, y); }
void GeluGradient(int64_t count, Tensor x, Tensor dy, Tensor dx) {
  HWY_DYNAMIC_DISPATCH(GeluGradientImpl)(count, x, dy, dx);
}
void Add(int64_t count, Tensor a, Tensor b, Tensor y) { HWY_DYNAMIC_DISPATCH(AddImpl)(count, a, b, y); }
void Convert(int64_t count, Tensor from, Tensor to) { HWY_DYNAMIC_DISPATCH(ConvertImpl)(count, from, to); }
void Accumulate(int64_t count, Tensor from, float* accumulator) {
  HWY_DYNAMIC_DISPATCH(AccumulateImpl)(count, from, accumulator);
}
double SumSquares(int64_t count, Tensor x) { return HWY_DYNAMIC_DISPATCH(SumSquaresImpl)(count, x); }
void AdamW(int64_t count, const AdamWFactors& factors, Tensor gradient, float* master, float* exp_avg,
           float* exp_avg_sq, Tensor parameter) {
  HWY_DYNAMIC_DISPATCH(AdamWImpl)(count, factors, gradient, master, exp_avg, exp_avg_sq, parameter);
}
const char* TargetName() { return HWY_DYNAMIC_DISPATCH(TargetNameImpl)(); }

}  // namespace zerofleet::kernels
#endif  // HWY_ONCE
