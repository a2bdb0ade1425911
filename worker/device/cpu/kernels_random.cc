// Normal numbers, a vector of counters at a time (kernels.h): random_normal.h in double, with Highway's logarithm, sine
// and cosine, whose last bit sometimes differs from the C library's. After rounding to float, the last bit hardly ever
// differs.
#include <algorithm>

#include "worker/device/cpu/kernels.h"
#include "worker/device/random_normal.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "worker/device/cpu/kernels_random.cc"
#include "hwy/foreach_target.h"
// These must follow foreach_target.h.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace zerofleet::device::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

void FillNormalImpl(int64_t count, uint64_t seed, uint64_t stream_id, uint64_t first, double deviation, float* to) {
  FourNormals normals{};
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t element = first + static_cast<uint64_t>(i);
    if (i == 0 || element % 4 == 0) normals = NormalsOfBlock(seed, stream_id, element / 4, deviation);
    to[i] = normals.value[element % 4];
  }
}

#else

using DoubleTag = hn::ScalableTag<double>;
using WordTag = hn::RebindToUnsigned<DoubleTag>;  // words of 32 bits in lanes of 64
using Words = hn::Vec<WordTag>;
using Doubles = hn::Vec<DoubleTag>;

// Philox for consecutive counters from `block` on, one per lane.
HWY_INLINE void PhiloxOf(uint64_t seed, uint64_t stream_id, uint64_t block, Words (&x)[4]) {
  const WordTag d;
  const hn::Repartition<uint32_t, WordTag> halves;
  const auto low = hn::Set(d, 0xffffffffu);
  const auto counter = hn::Add(hn::Set(d, block), hn::Iota(d, 0));
  x[0] = hn::And(counter, low);
  x[1] = hn::ShiftRight<32>(counter);
  x[2] = hn::Set(d, stream_id & 0xffffffffu);
  x[3] = hn::Set(d, stream_id >> 32);
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  const auto factor0 = hn::BitCast(halves, hn::Set(d, 0xD2511F53u)),
             factor1 = hn::BitCast(halves, hn::Set(d, 0xCD9E8D57u));
  for (int round = 0; round < 10; ++round) {
    const auto product0 = hn::MulEven(factor0, hn::BitCast(halves, x[0]));
    const auto product1 = hn::MulEven(factor1, hn::BitCast(halves, x[2]));
    x[0] = hn::Xor(hn::Xor(hn::ShiftRight<32>(product1), x[1]), hn::Set(d, uint64_t{key0}));
    x[1] = hn::And(product1, low);
    x[2] = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), x[3]), hn::Set(d, uint64_t{key1}));
    x[3] = hn::And(product0, low);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
}

// (word + 0.5) / 2^32.
HWY_INLINE Doubles Uniform(Words word) {
  const DoubleTag d;
  // The bits of 2^52 with the word as the lowest ones: the double 2^52 + word.
  const auto exact = hn::BitCast(d, hn::Or(word, hn::Set(WordTag(), 0x4330000000000000u)));
  return hn::Mul(hn::Add(hn::Sub(exact, hn::Set(d, 0x1p52)), hn::Set(d, 0.5)), hn::Set(d, 0x1p-32));
}

void FillNormalImpl(int64_t count, uint64_t seed, uint64_t stream_id, uint64_t first, double deviation, float* to) {
  const DoubleTag d;
  const hn::Rebind<float, DoubleTag> floats;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kMost = 4 * HWY_MAX_BYTES / sizeof(double);
  HWY_ALIGN float values[kMost];
  const auto skipped = static_cast<int64_t>(first % 4);
  for (int64_t done = -skipped; done < count; done += 4 * lanes) {
    Words words[4];
    PhiloxOf(seed, stream_id, (first + static_cast<uint64_t>(done)) / 4, words);
    hn::Vec<decltype(floats)> normals[4];
    for (int pair = 0; pair < 2; ++pair) {
      const auto radius = hn::Sqrt(hn::Mul(hn::Set(d, -2.0), hn::Log(d, Uniform(words[2 * pair]))));
      const auto angle = hn::Mul(hn::Set(d, 6.283185307179586), Uniform(words[2 * pair + 1]));
      const auto scaled = hn::Mul(hn::Set(d, deviation), radius);
      normals[2 * pair] = hn::DemoteTo(floats, hn::Mul(scaled, hn::Cos(d, angle)));
      normals[2 * pair + 1] = hn::DemoteTo(floats, hn::Mul(scaled, hn::Sin(d, angle)));
    }
    const bool whole = done >= 0 && done + 4 * lanes <= count;
    hn::StoreInterleaved4(normals[0], normals[1], normals[2], normals[3], floats, whole ? to + done : values);
    if (whole) continue;
    for (int64_t i = std::max<int64_t>(done, 0); i < std::min(done + 4 * lanes, count); ++i) to[i] = values[i - done];
  }
}

#endif

}  // namespace zerofleet::device::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zerofleet::device::kernels {

HWY_EXPORT(FillNormalImpl);

void FillNormal(int64_t count, uint64_t seed, uint64_t stream_id, uint64_t first, double deviation, float* to) {
  HWY_DYNAMIC_DISPATCH(FillNormalImpl)(count, seed, stream_id, first, deviation, to);
}

}  // namespace zerofleet::device::kernels
#endif  // HWY_ONCE
