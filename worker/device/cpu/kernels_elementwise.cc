// Element-wise kernels (kernels.h): GELU, sums, conversions, optimizers.
#include "worker/device/cpu/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/device/cpu/kernels_elementwise.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "worker/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zerofleet::device::kernels::HWY_NAMESPACE {

void GeluImpl(int64_t count, Tensor x, Tensor y) {
  WithType(x, [&](auto* from) HWY_ATTR {
    auto* to = static_cast<decltype(from)>(y.data);
    ForVectors(count, [&](int64_t i, int64_t lanes) ZF_BODY {
      const auto v = Read(from + i, lanes);
      Write(Gelu<VectorMath>(v), to + i, lanes);
    });
  });
}

void GeluGradientImpl(int64_t count, Tensor x, Tensor dy, Tensor dx) {
  WithType(x, [&](auto* from) HWY_ATTR {
    const auto* upstream = static_cast<decltype(from)>(dy.data);
    auto* to = static_cast<decltype(from)>(dx.data);
    ForVectors(count, [&](int64_t i, int64_t lanes) ZF_BODY {
      const auto slope = GeluSlope<VectorMath>(Read(from + i, lanes));
      Write(hn::Mul(Read(upstream + i, lanes), slope), to + i, lanes);
    });
  });
}

void AddImpl(int64_t count, Tensor a, Tensor b, Tensor y) {
  WithType(a, [&](auto* left) HWY_ATTR {
    const auto* right = static_cast<decltype(left)>(b.data);
    auto* to = static_cast<decltype(left)>(y.data);
    ForVectors(count, [&](int64_t i, int64_t lanes)
                          ZF_BODY { Write(hn::Add(Read(left + i, lanes), Read(right + i, lanes)), to + i, lanes); });
  });
}

void AddScaledImpl(int64_t count, Tensor from, float factor, bool add, Tensor to) {
  WithType(from, [&](auto* source) HWY_ATTR {
    auto* target = static_cast<decltype(source)>(to.data);
    const auto times = hn::Set(FloatTag(), factor);
    ForVectors(count, [&](int64_t i, int64_t lanes) HWY_ATTR {
      const auto scaled = hn::Mul(Read(source + i, lanes), times);
      Write(add ? hn::Add(Read(target + i, lanes), scaled) : scaled, target + i, lanes);
    });
  });
}

// 1 / (1 + exp(-x)), where exp's argument is limited to 88: beyond that the sigmoid is as good as 0.
HWY_INLINE FloatVec Sigmoid(FloatVec x) {
  const auto one = hn::Set(FloatTag(), 1.0f), most = hn::Set(FloatTag(), 88.0f);
  const auto minus = hn::Neg(x);
  return hn::Div(one, hn::Add(one, Exp(hn::IfThenElse(hn::Gt(minus, most), most, minus))));
}

void GateImpl(int64_t count, Tensor gate, Tensor up, Tensor y) {
  WithType(gate, [&](auto* left) HWY_ATTR {
    const auto* right = static_cast<decltype(left)>(up.data);
    auto* to = static_cast<decltype(left)>(y.data);
    ForVectors(count, [&](int64_t i, int64_t lanes) ZF_BODY {
      const auto g = Read(left + i, lanes);
      Write(hn::Mul(hn::Mul(g, Sigmoid(g)), Read(right + i, lanes)), to + i, lanes);
    });
  });
}

// With s = sigmoid(g): d silu = s + g s (1 - s).
void GateGradientImpl(int64_t count, Tensor gate, Tensor up, Tensor dy, Tensor dgate, Tensor dup) {
  WithType(gate, [&](auto* left) HWY_ATTR {
    using T = decltype(left);
    const auto *right = static_cast<T>(up.data), *upstream = static_cast<T>(dy.data);
    auto *to_left = static_cast<T>(dgate.data), *to_right = static_cast<T>(dup.data);
    const auto one = hn::Set(FloatTag(), 1.0f);
    ForVectors(count, [&](int64_t i, int64_t lanes) ZF_BODY {
      const auto g = Read(left + i, lanes), u = Read(right + i, lanes), d = Read(upstream + i, lanes);
      const auto s = Sigmoid(g), silu = hn::Mul(g, s);
      Write(hn::Mul(hn::Mul(d, u), hn::MulAdd(silu, hn::Sub(one, s), s)), to_left + i, lanes);
      Write(hn::Mul(d, silu), to_right + i, lanes);
    });
  });
}

void RotateHeadImpl(int64_t half, const float* cosines, const float* sines, bool back, Tensor head) {
  WithType(head, [&](auto* x) HWY_ATTR {
    ForVectors(half, [&](int64_t i, int64_t lanes) ZF_BODY {
      const auto a = Read(x + i, lanes), b = Read(x + half + i, lanes), c = Read(cosines + i, lanes);
      auto s = Read(sines + i, lanes);
      if (back) s = hn::Neg(s);
      const auto first = hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), second = hn::Add(hn::Mul(b, c), hn::Mul(a, s));
      Write(first, x + i, lanes);
      Write(second, x + half + i, lanes);
    });
  });
}

void ConvertImpl(int64_t count, Tensor from, Tensor to) {
  WithType(from, [&](auto* source) HWY_ATTR {
    WithType(to, [&](auto* target) HWY_ATTR {
      ForVectors(count, [&](int64_t i, int64_t lanes) ZF_BODY { Write(Read(source + i, lanes), target + i, lanes); });
    });
  });
}

void AccumulateImpl(int64_t count, Tensor from, float* accumulator) {
  WithType(from, [&](auto* source) HWY_ATTR {
    ForVectors(count, [&](int64_t i, int64_t lanes) ZF_BODY {
      Write(hn::Add(Read(accumulator + i, lanes), Read(source + i, lanes)), accumulator + i, lanes);
    });
  });
}

double SumSquaresImpl(int64_t count, Tensor x) {
  constexpr int64_t kSums = 16;
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, hn::ScalableTag<double>> half;
  constexpr int64_t kLanes = hn::MaxLanes(d), kVectors = kSums / kLanes;
  hn::Vec<decltype(d)> sums[kVectors];
  HWY_UNROLL(16)
  for (auto& sum : sums) sum = hn::Zero(d);
  HWY_ALIGN float values[kSums];
  WithType(x, [&](auto* source) HWY_ATTR {
    const auto add = [&](const float* row) ZF_BODY {
      HWY_UNROLL(16)
      for (int64_t j = 0; j < kVectors; ++j) {
        const auto v = hn::PromoteTo(d, hn::LoadU(half, row + j * kLanes));
        // The square of a float is exact in double, so fusing it with the addition makes no difference.
        sums[j] = hn::MulAdd(v, v, sums[j]);
      }
    };
    int64_t i = 0;
    for (; i + kSums <= count; i += kSums) {
      if constexpr (std::is_same_v<decltype(source), float*>) {
        add(source + i);
      } else {
        for (int64_t j = 0; j < kSums; j += FloatLanes()) Store(Load(source + i + j), values + j);
        add(values);
      }
    }
    if (i == count) return;
    for (int64_t j = 0; j < kSums; ++j) values[j] = i + j < count ? ToFloat(source[i + j]) : 0.0f;
    add(values);
  });
  HWY_ALIGN double lanes[kSums];
  for (int64_t j = 0; j < kVectors; ++j) hn::Store(sums[j], d, lanes + j * kLanes);
  double total = 0;
  for (const double sum : lanes) total += sum;
  return total;
}

// The update kernels read and write several long vectors once, more than caches hold. They prefetch this far ahead,
// also past the end of the page, where the processor's own prefetching stops.
constexpr int64_t kAheadBytes = 2048;

template <typename T>
HWY_INLINE void PrefetchAhead(const T* at) {
  hwy::Prefetch(reinterpret_cast<const char*>(at) + kAheadBytes);
}

// Writes the new weights to the master, and `p`, rounded, to the parameter unless that is the master itself.
template <typename P>
HWY_INLINE void WriteWeights(FloatVec weights, FloatVec p, float* master, P* parameter, bool streams, int64_t i,
                             int64_t lanes) {
  Write(weights, master + i, lanes);
  if constexpr (std::is_same_v<P, float>) {
    if (parameter == master) return;
  }
  if (streams && lanes == FloatLanes()) {
    StoreStreaming(p, parameter + i);
  } else {
    Write(p, parameter + i, lanes);
  }
}

template <bool kLooksAhead, typename G, typename P>
HWY_INLINE void AdamWTyped(int64_t count, const UpdateFactors& f, bool decay, const G* gradient, float* master,
                           float* exp_avg, float* exp_avg_sq, P* parameter) {
  const auto factors = MakeAdamWElements<VectorMath>(f, decay);
  const bool streams = CanStream(parameter);
  ForVectors(count, [&](int64_t i, int64_t lanes) ZF_BODY {
    PrefetchAhead(gradient + i);
    PrefetchAhead(master + i);
    PrefetchAhead(exp_avg + i);
    PrefetchAhead(exp_avg_sq + i);
    auto m = Read(exp_avg + i, lanes), v = Read(exp_avg_sq + i, lanes);
    const auto g = Read(gradient + i, lanes);
    const auto weights = AdamWElement<VectorMath>(factors, g, Read(master + i, lanes), m, v);
    auto p = weights;
    if constexpr (kLooksAhead) p = AdamWAhead<VectorMath>(factors, g, weights, m, v);
    Write(m, exp_avg + i, lanes);
    Write(v, exp_avg_sq + i, lanes);
    WriteWeights(weights, p, master, parameter, streams, i, lanes);
  });
  hwy::FlushStream();
}

void AdamWImpl(int64_t count, const UpdateFactors& factors, bool decay, Tensor gradient, float* master, float* exp_avg,
               float* exp_avg_sq, Tensor parameter) {
  WithType(gradient, [&](auto* g) HWY_ATTR {
    WithType(parameter, [&](auto* p) HWY_ATTR {
      if (factors.looks_ahead != 0) {
        AdamWTyped<true>(count, factors, decay, g, master, exp_avg, exp_avg_sq, p);
      } else {
        AdamWTyped<false>(count, factors, decay, g, master, exp_avg, exp_avg_sq, p);
      }
    });
  });
}

template <bool kLooksAhead, typename G, typename P>
HWY_INLINE void SgdTyped(int64_t count, const UpdateFactors& f, bool decay, const G* gradient, float* master,
                         float* momentum, P* parameter) {
  const auto factors = MakeSgdElements<VectorMath>(f, decay);
  const bool streams = CanStream(parameter);
  ForVectors(count, [&](int64_t i, int64_t lanes) ZF_BODY {
    PrefetchAhead(gradient + i);
    PrefetchAhead(master + i);
    PrefetchAhead(momentum + i);
    auto m = Read(momentum + i, lanes);
    const auto g = Read(gradient + i, lanes), before = Read(master + i, lanes);
    const auto weights = SgdElement<VectorMath>(factors, g, before, m);
    auto p = weights;
    if constexpr (kLooksAhead) p = SgdAhead<VectorMath>(factors, g, before, weights, m);
    Write(m, momentum + i, lanes);
    WriteWeights(weights, p, master, parameter, streams, i, lanes);
  });
  hwy::FlushStream();
}

void SgdImpl(int64_t count, const UpdateFactors& factors, bool decay, Tensor gradient, float* master, float* momentum,
             Tensor parameter) {
  WithType(gradient, [&](auto* g) HWY_ATTR {
    WithType(parameter, [&](auto* p) HWY_ATTR {
      if (factors.looks_ahead != 0) {
        SgdTyped<true>(count, factors, decay, g, master, momentum, p);
      } else {
        SgdTyped<false>(count, factors, decay, g, master, momentum, p);
      }
    });
  });
}

void MuonDirectionImpl(int64_t count, const UpdateFactors& f, bool ahead, Tensor gradient, float* momentum, Tensor to) {
  const auto factors = MakeMuonElements<VectorMath>(f);
  WithType(gradient, [&](auto* g) HWY_ATTR {
    WithType(to, [&](auto* target) HWY_ATTR {
      ForVectors(count, [&](int64_t i, int64_t lanes) ZF_BODY {
        auto m = Read(momentum + i, lanes);
        const auto direction = MuonDirectionElement<VectorMath>(factors, Read(g + i, lanes), m);
        if (!ahead) Write(m, momentum + i, lanes);
        Write(direction, target + i, lanes);
      });
    });
  });
}

void MuonMoveImpl(int64_t count, float decay, float scale, const float* direction, const float* from, Tensor to) {
  const auto decays = hn::Set(FloatTag(), decay), scales = hn::Set(FloatTag(), scale);
  WithType(to, [&](auto* target) HWY_ATTR {
    ForVectors(count, [&](int64_t i, int64_t lanes) ZF_BODY {
      const auto along = Read(direction + i, lanes), weights = Read(from + i, lanes);
      Write(MuonMovedElement<VectorMath>(decays, scales, along, weights), target + i, lanes);
    });
  });
}

// Computed from the nearer end, as torch.lerp does: a share of 1 gives the weights themselves.
void AverageImpl(int64_t count, float share, const float* weights, float* average) {
  ForVectors(count, [&](int64_t i, int64_t lanes) ZF_BODY {
    Write(AveragedElement<VectorMath>(share, Read(weights + i, lanes), Read(average + i, lanes)), average + i, lanes);
  });
}

const char* TargetNameImpl() { return hwy::TargetName(HWY_TARGET); }

}  // namespace zerofleet::device::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zerofleet::device::kernels {

HWY_EXPORT(GeluImpl);
HWY_EXPORT(GeluGradientImpl);
HWY_EXPORT(AddImpl);
HWY_EXPORT(AddScaledImpl);
HWY_EXPORT(GateImpl);
HWY_EXPORT(GateGradientImpl);
HWY_EXPORT(RotateHeadImpl);
HWY_EXPORT(ConvertImpl);
HWY_EXPORT(AccumulateImpl);
HWY_EXPORT(SumSquaresImpl);
HWY_EXPORT(AdamWImpl);
HWY_EXPORT(SgdImpl);
HWY_EXPORT(MuonDirectionImpl);
HWY_EXPORT(MuonMoveImpl);
HWY_EXPORT(AverageImpl);
HWY_EXPORT(TargetNameImpl);

void Gelu(int64_t count, Tensor x, Tensor y) { HWY_DYNAMIC_DISPATCH(GeluImpl)(count, x, y); }
void GeluGradient(int64_t count, Tensor x, Tensor dy, Tensor dx) {
  HWY_DYNAMIC_DISPATCH(GeluGradientImpl)(count, x, dy, dx);
}
void Add(int64_t count, Tensor a, Tensor b, Tensor y) { HWY_DYNAMIC_DISPATCH(AddImpl)(count, a, b, y); }
void AddScaled(int64_t count, Tensor from, float factor, bool add, Tensor to) {
  HWY_DYNAMIC_DISPATCH(AddScaledImpl)(count, from, factor, add, to);
}
void Gate(int64_t count, Tensor gate, Tensor up, Tensor y) { HWY_DYNAMIC_DISPATCH(GateImpl)(count, gate, up, y); }
void GateGradient(int64_t count, Tensor gate, Tensor up, Tensor dy, Tensor dgate, Tensor dup) {
  HWY_DYNAMIC_DISPATCH(GateGradientImpl)(count, gate, up, dy, dgate, dup);
}
void RotateHead(int64_t half, const float* cosines, const float* sines, bool back, Tensor head) {
  HWY_DYNAMIC_DISPATCH(RotateHeadImpl)(half, cosines, sines, back, head);
}
void Convert(int64_t count, Tensor from, Tensor to) { HWY_DYNAMIC_DISPATCH(ConvertImpl)(count, from, to); }
void Accumulate(int64_t count, Tensor from, float* accumulator) {
  HWY_DYNAMIC_DISPATCH(AccumulateImpl)(count, from, accumulator);
}
double SumSquares(int64_t count, Tensor x) { return HWY_DYNAMIC_DISPATCH(SumSquaresImpl)(count, x); }
void AdamW(int64_t count, const UpdateFactors& factors, bool decay, Tensor gradient, float* master, float* exp_avg,
           float* exp_avg_sq, Tensor parameter) {
  HWY_DYNAMIC_DISPATCH(AdamWImpl)(count, factors, decay, gradient, master, exp_avg, exp_avg_sq, parameter);
}
void Sgd(int64_t count, const UpdateFactors& factors, bool decay, Tensor gradient, float* master, float* momentum,
         Tensor parameter) {
  HWY_DYNAMIC_DISPATCH(SgdImpl)(count, factors, decay, gradient, master, momentum, parameter);
}
void MuonDirection(int64_t count, const UpdateFactors& factors, bool ahead, Tensor gradient, float* momentum,
                   Tensor to) {
  HWY_DYNAMIC_DISPATCH(MuonDirectionImpl)(count, factors, ahead, gradient, momentum, to);
}
void MuonMove(int64_t count, float decay, float scale, const float* direction, const float* from, Tensor to) {
  HWY_DYNAMIC_DISPATCH(MuonMoveImpl)(count, decay, scale, direction, from, to);
}
void Average(int64_t count, float share, const float* weights, float* average) {
  HWY_DYNAMIC_DISPATCH(AverageImpl)(count, share, weights, average);
}
const char* TargetName() { return HWY_DYNAMIC_DISPATCH(TargetNameImpl)(); }

}  // namespace zerofleet::device::kernels
#endif  // HWY_ONCE
