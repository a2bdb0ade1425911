// Flat-vector ops on every device: values, rounding, and that a sub-range gives the same bits as the whole.
#include <bit>
#include <cmath>
#include <limits>

#include "worker/device/conformance/device_fixture.h"

namespace zerofleet {
namespace {

constexpr int64_t kCount = 40003;  // several blocks and a ragged end
constexpr AdamWStep kStep = {.learning_rate = 3e-4, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8,
                             .weight_decay = 0.1, .gradient_scale = 0.7, .step = 3};

class FlatVectorsTest : public DeviceTest {
 protected:
  double SumSquares(const std::vector<float>& values) {
    const DeviceTensor x = Put(values), sum(device(), int64_t{sizeof(double)});
    ops().SumSquares(stream(), values.size(), x.tensor(), sum.as<double>());
    double result = 0;
    device().Copy(stream(), &result, sum.as<void>(), sizeof(double));
    EXPECT_TRUE(stream().Synchronize().ok());
    return result;
  }
};

std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

// Every kind of float: ordinary, ties in both directions, subnormal, the largest, infinite, NaN with low bits only.
std::vector<float> RoundingCases() {
  std::vector<float> cases = {0.0f, -0.0f, 1.0f, std::numeric_limits<float>::max(), -std::numeric_limits<float>::max(),
                              std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::quiet_NaN()};
  for (const uint32_t bits : {0x3f808000u, 0x3f818000u, 0x3f807fffu, 0x3f808001u, 0x7f800001u, 0xff800001u, 0x7fffffffu,
                              0xffffffffu, 0x00008000u, 0x80018000u, 0x7f7f7fffu, 0x7f7f8000u}) {
    cases.push_back(std::bit_cast<float>(bits));
  }
  uint32_t state = 1;
  while (cases.size() < 5003) cases.push_back(std::bit_cast<float>(state = state * 1664525u + 1013904223u));
  return cases;
}

TEST_P(FlatVectorsTest, ConvertRoundsAsToBF16) {
  const std::vector<float> cases = RoundingCases();
  const DeviceTensor from = PutFloat(cases), to(device(), std::vector<float>(cases.size()), DType::kBF16);
  ops().Convert(stream(), cases.size(), from.tensor(), to.tensor());
  std::vector<float> want;
  for (const float value : cases) want.push_back(ToFloat(ToBF16(value)));
  EXPECT_EQ(Bits(Get(to)), Bits(want));
  ops().Convert(stream(), cases.size(), to.tensor(), from.tensor());
  EXPECT_EQ(Bits(Get(from)), Bits(want));
}

TEST_P(FlatVectorsTest, ConvertMayNarrowInPlace) {
  const auto values = Values(kCount, 1);
  const DeviceTensor buffer = PutFloat(values), apart(device(), std::vector<float>(kCount), DType::kBF16);
  ops().Convert(stream(), kCount, buffer.tensor(), apart.tensor());
  ops().Convert(stream(), kCount, buffer.tensor(), {buffer.tensor().data, DType::kBF16});
  std::vector<float> narrowed = Get(buffer);  // read as fp32: two elements in each
  const auto* halves = reinterpret_cast<const BF16*>(narrowed.data());
  const auto want = Get(apart);
  for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(ToFloat(halves[i]), want[i]) << i;
}

TEST_P(FlatVectorsTest, AccumulateAddsInFloat) {
  const auto from = Random(kCount, 2), before = Values(kCount, 3);
  const DeviceTensor device_from = Put(from), accumulator = PutFloat(before);
  ops().Accumulate(stream(), kCount, device_from.tensor(), accumulator.as());
  std::vector<float> want;
  for (int64_t i = 0; i < kCount; ++i) want.push_back(before[i] + from[i]);
  EXPECT_EQ(Bits(Get(accumulator)), Bits(want));
}

TEST_P(FlatVectorsTest, SumSquaresInDouble) {
  for (const int64_t count : {0, 1, 15, 17, 1000, 100003}) {
    const auto values = Random(count, 4);
    EXPECT_NEAR(SumSquares(values), Dot(values, values), 1e-12 * (1 + Dot(values, values)));
  }
  EXPECT_TRUE(std::isnan(SumSquares({1.0f, std::nanf(""), 2.0f})));
}

TEST_P(FlatVectorsTest, ZeroAndFill) {
  const DeviceTensor buffer = PutFloat(Values(kCount, 5));
  ops().Fill(stream(), kCount, 2.5f, buffer.as());
  EXPECT_EQ(Get(buffer), std::vector<float>(kCount, 2.5f));
  ops().Zero(stream(), buffer.as<void>(), kCount * 4);
  EXPECT_EQ(Get(buffer), std::vector<float>(kCount));
}

struct AdamWState {
  std::vector<float> master, exp_avg, exp_avg_sq, parameter;
};

TEST_P(FlatVectorsTest, AdamWMatchesDouble) {
  const auto g = Random(kCount, 6), p = Values(kCount, 7), m = Values(kCount, 8);
  auto v = Values(kCount, 9);
  for (float& value : v) value = std::abs(value);
  const DeviceTensor gradient = Put(g), master = PutFloat(p), exp_avg = PutFloat(m), exp_avg_sq = PutFloat(v);
  const DeviceTensor parameter = Room(kCount);
  ops().AdamW(stream(), kCount, kStep, gradient.tensor(), master.as(), exp_avg.as(), exp_avg_sq.as(),
              parameter.tensor());
  std::vector<double> want_p, want_m, want_v;
  for (int64_t i = 0; i < kCount; ++i) {
    const double grad = g[i] * kStep.gradient_scale;
    want_m.push_back(kStep.beta1 * m[i] + (1 - kStep.beta1) * grad);
    want_v.push_back(kStep.beta2 * v[i] + (1 - kStep.beta2) * grad * grad);
    const double corrected_m = want_m[i] / (1 - std::pow(kStep.beta1, 3));
    const double corrected_v = want_v[i] / (1 - std::pow(kStep.beta2, 3));
    want_p.push_back(p[i] * (1 - kStep.learning_rate * kStep.weight_decay) -
                     kStep.learning_rate * corrected_m / (std::sqrt(corrected_v) + kStep.epsilon));
  }
  ExpectClose(Get(exp_avg), want_m, DType::kF32);
  ExpectClose(Get(exp_avg_sq), want_v, DType::kF32);
  const auto got = Get(master);
  for (int64_t i = 0; i < kCount; ++i) ASSERT_NEAR(got[i], want_p[i], 1e-7 + 1e-6 * std::abs(want_p[i])) << i;
  std::vector<float> rounded = got;
  if (dtype() == DType::kBF16) for (float& value : rounded) value = ToFloat(ToBF16(value));
  EXPECT_EQ(Bits(Get(parameter)), Bits(rounded));
}

TEST_P(FlatVectorsTest, AdamWOfARangeEqualsThatRangeOfTheWhole) {
  const auto g = Random(kCount, 6), p = Values(kCount, 7), m = Values(kCount, 8), v = std::vector<float>(kCount, 0.1f);
  const auto run = [&](std::vector<std::pair<int64_t, int64_t>> ranges) {
    const DeviceTensor gradient = Put(g), master = PutFloat(p), exp_avg = PutFloat(m), exp_avg_sq = PutFloat(v);
    const Tensor fp32_parameter = master.tensor();  // the parameter may be the master itself
    for (const auto& [begin, end] : ranges) {
      ops().AdamW(stream(), end - begin, kStep, gradient.tensor().Offset(begin), master.as() + begin,
                  exp_avg.as() + begin, exp_avg_sq.as() + begin, fp32_parameter.Offset(begin));
    }
    return std::array{Bits(Get(master)), Bits(Get(exp_avg)), Bits(Get(exp_avg_sq))};
  };
  EXPECT_EQ(run({{0, kCount}}), run({{0, 3}, {3, 17}, {17, 12345}, {12345, kCount}}));
}

TEST_P(FlatVectorsTest, FillNormalOfARangeEqualsThatRangeOfTheWhole) {
  const DeviceTensor whole = PutFloat(std::vector<float>(kCount)), parts = PutFloat(std::vector<float>(kCount));
  ops().FillNormal(stream(), kCount, 42, 7, 1000, 0.02f, whole.as());
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 1}, {1, 6}, {6, 20001}, {20001, kCount}}) {
    ops().FillNormal(stream(), end - begin, 42, 7, 1000 + begin, 0.02f, parts.as() + begin);
  }
  EXPECT_EQ(Bits(Get(whole)), Bits(Get(parts)));
}

TEST_P(FlatVectorsTest, FillNormalIsNormal) {
  constexpr int64_t n = 400000;
  const DeviceTensor buffer = PutFloat(std::vector<float>(n)), other = PutFloat(std::vector<float>(n));
  ops().FillNormal(stream(), n, 1, 2, 0, 1.0f, buffer.as());
  ops().FillNormal(stream(), n, 1, 3, 0, 1.0f, other.as());
  const auto x = Get(buffer), y = Get(other);
  const double second = Dot(x, x) / n;
  double mean = 0, fourth = 0;
  for (const float value : x) {
    mean += value / static_cast<double>(n);
    fourth += std::pow(value, 4) / n;
  }
  EXPECT_NEAR(mean, 0, 0.01);
  EXPECT_NEAR(second, 1, 0.01);
  EXPECT_NEAR(fourth, 3, 0.08);
  EXPECT_NEAR(Dot(x, y) / n, 0, 0.01);  // another stream is another sequence
}

ZF_CONFORMANCE(FlatVectorsTest);

}  // namespace
}  // namespace zerofleet
