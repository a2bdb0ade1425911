// Flat-vector ops on every device: values, rounding, and that a sub-range gives the same bits as the whole.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "worker/device/conformance/device_fixture.h"

namespace zerofleet::device {
namespace {

constexpr int64_t kCount = 40003;  // several blocks and a ragged end
constexpr double kGradientScale = 0.7;
constexpr StepRule kRule = {.tokens = 1,
                            .grad_clip = 0,
                            .loss_scaling = {},
                            .learning_rate = 3e-4,
                            .beta1 = 0.9,
                            .beta2 = 0.95,
                            .epsilon = 1e-8,
                            .weight_decay = 0.1};

constexpr StepRule kSgdRule = {
    .tokens = 1, .grad_clip = 0, .loss_scaling = {}, .learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.01};

std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

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

  // The third update's control, in device memory.
  DeviceTensor Control(const StepRule& rule = kRule, bool apply = true) {
    StepControl control;
    control.apply = apply ? 1 : 0;
    control.factors = FactorsOf(rule, kGradientScale, 3);
    DeviceTensor memory(device(), int64_t{sizeof control});
    device().Copy(stream(), memory.as<void>(), &control, sizeof control);
    return memory;
  }

  // The master weights are near `want`, and the parameter is the master weights rounded.
  void ExpectUpdated(const DeviceTensor& master, const DeviceTensor& parameter, const std::vector<double>& want) {
    std::vector<float> got = Get(master);
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-7 + 1e-6 * std::abs(want[i])) << i;
    for (float& value : got) value = Rounded(value, dtype());
    EXPECT_EQ(Bits(Get(parameter)), Bits(got));
  }
};

// Every kind of float: ordinary, ties in both directions, subnormal, the largest, infinite, NaN with low bits only.
std::vector<float> RoundingCases() {
  std::vector<float> cases = {0.0f,
                              -0.0f,
                              1.0f,
                              std::numeric_limits<float>::max(),
                              -std::numeric_limits<float>::max(),
                              std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::denorm_min(),
                              std::numeric_limits<float>::quiet_NaN()};
  for (const uint32_t bits : {0x3f808000u, 0x3f818000u, 0x3f807fffu, 0x3f808001u, 0x7f800001u, 0xff800001u, 0x7fffffffu,
                              0xffffffffu, 0x00008000u, 0x80018000u, 0x7f7f7fffu, 0x7f7f8000u}) {
    cases.push_back(std::bit_cast<float>(bits));
  }
  uint32_t state = 1;
  while (cases.size() < 5003) cases.push_back(std::bit_cast<float>(state = state * 1664525u + 1013904223u));
  return cases;
}

TEST_P(FlatVectorsTest, ConvertRoundsAsTheTypesSay) {
  const std::vector<float> cases = RoundingCases();
  const DeviceTensor from = PutFloat(cases), to = Room(cases.size());
  ops().Convert(stream(), cases.size(), from.tensor(), to.tensor());
  const auto got = Get(to);
  ops().Convert(stream(), cases.size(), to.tensor(), from.tensor());
  const auto back = Get(from);
  for (size_t i = 0; i < cases.size(); ++i) {
    const float want = Rounded(cases[i], dtype());
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got[i]) && std::isnan(back[i])) << i;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want)) << cases[i];
      ASSERT_EQ(std::bit_cast<uint32_t>(back[i]), std::bit_cast<uint32_t>(want)) << cases[i];
    }
  }
}

TEST_P(FlatVectorsTest, ConvertMayNarrowInPlace) {
  if (dtype() == DType::kF32) GTEST_SKIP() << "fp32 is not narrower than fp32";
  // The last count is more than the threads that a device runs at a time.
  for (const int64_t count : {int64_t{1}, int64_t{9}, kCount, int64_t{3000001}}) {
    const auto values = Values(count, 1);
    const DeviceTensor buffer = PutFloat(values);
    ops().Convert(stream(), count, buffer.tensor(), {buffer.tensor().data, dtype()});
    std::vector<float> narrowed = Get(buffer);  // read as fp32: two elements in each
    const auto* halves = reinterpret_cast<const uint16_t*>(narrowed.data());
    for (int64_t i = 0; i < count; ++i) {
      const float got = dtype() == DType::kBF16 ? ToFloat(BF16{halves[i]}) : ToFloat(F16{halves[i]});
      ASSERT_EQ(got, Rounded(values[i], dtype())) << i;
    }
  }
}

TEST_P(FlatVectorsTest, AccumulateAddsInFloat) {
  const auto from = Random(kCount, 2), before = Values(kCount, 3);
  const DeviceTensor device_from = Put(from), accumulator = PutFloat(before);
  ops().Accumulate(stream(), kCount, device_from.tensor(), accumulator.as());
  std::vector<float> want;
  for (int64_t i = 0; i < kCount; ++i) want.push_back(before[i] + from[i]);
  EXPECT_EQ(Bits(Get(accumulator)), Bits(want));
}

TEST_P(FlatVectorsTest, AssignTakesAllOrNothing) {
  for (const int64_t count : {int64_t{1}, int64_t{9}, kCount}) {
    const auto from = Random(count, 2), before = Values(count, 3);
    for (const int apply : {0, 1}) {
      const DeviceTensor device_from = Put(from), to = PutFloat(before), control = Control(kRule, apply != 0);
      ops().Assign(stream(),
                   {.count = count, .control = control.as<StepControl>(), .from = device_from.tensor(), .to = to.as()});
      EXPECT_EQ(Bits(Get(to)), Bits(apply == 0 ? before : from)) << count;
    }
  }
}

// torch.lerp's arithmetic: from the nearer end, so that a share of 1 gives the weights themselves and 0 changes
// nothing.
TEST_P(FlatVectorsTest, AnAverageGoesAShareOfTheWay) {
  for (const int64_t count : {int64_t{1}, int64_t{9}, kCount}) {
    const auto weights = Values(count, 1), before = Values(count, 2);
    const DeviceTensor device_weights = PutFloat(weights);
    for (const float share : {0.0f, 0.001f, 0.4f, 0.6f, 1.0f}) {
      for (const int apply : {0, 1}) {
        StepControl step;
        step.apply = apply;
        step.factors.average_share = share;
        const DeviceTensor control(device(), int64_t{sizeof(StepControl)}), average = PutFloat(before);
        device().Copy(stream(), control.as<void>(), &step, sizeof step);
        ops().Average(stream(), {.count = count,
                                 .control = control.as<StepControl>(),
                                 .weights = device_weights.as(),
                                 .average = average.as()});
        const auto after = Get(average);
        for (int64_t i = 0; i < count; ++i) {
          const double way = static_cast<double>(weights[i]) - before[i];
          ASSERT_NEAR(after[i], before[i] + apply * static_cast<double>(share) * way, 1e-6) << share;
        }
        if (apply == 0 || share == 0) {
          EXPECT_EQ(Bits(after), Bits(before));
        } else if (share == 1) {
          EXPECT_EQ(Bits(after), Bits(weights));
        }
      }
    }
  }
}

TEST_P(FlatVectorsTest, SumSquaresInDouble) {
  for (const int64_t count : {0, 1, 15, 17, 1000, 100003}) {
    const auto values = Random(count, 4);
    EXPECT_NEAR(SumSquares(values), Dot(values, values), 1e-12 * (1 + Dot(values, values)));
  }
  EXPECT_TRUE(std::isnan(SumSquares({1.0f, std::nanf(""), 2.0f})));
}

// The sum is the same on every device, cut at any multiple of a block, or begun within one.
TEST_P(FlatVectorsTest, SumSquaresExactlyInAnyParts) {
  constexpr int64_t kFloats = 70'003;
  const auto values = Values(kFloats, 6);
  const DeviceTensor x = PutFloat(values), sums(device(), int64_t{2 * sizeof(ExactSum)});
  ExactSum want;
  for (int64_t i = 0; i < kFloats; i += kSquaresTogether) {
    want.Add(BlockOfSquares(&values[i], std::min(kSquaresTogether, kFloats - i)));
  }
  want.Normalize();
  for (const int64_t cut : {int64_t{0}, kSquaresTogether, int64_t{1024}, int64_t{69'984}}) {
    ops().SumSquaresExactly(stream(), cut, x.as(), 0, sums.as<ExactSum>());
    ops().SumSquaresExactly(stream(), kFloats - cut, x.as() + cut, 0, sums.as<ExactSum>() + 1);
    std::array<ExactSum, 2> parts;
    device().Copy(stream(), parts.data(), sums.as<void>(), sizeof parts);
    EXPECT_TRUE(stream().Synchronize().ok());
    parts[0].Add(parts[1]);
    EXPECT_EQ(std::to_array(parts[0].limbs), std::to_array(want.limbs)) << "cut at " << cut;
  }
  // A range that begins 7 elements into its first block.
  ops().SumSquaresExactly(stream(), 100, x.as() + 7, 7, sums.as<ExactSum>());
  ExactSum got, of_blocks;
  device().Copy(stream(), &got, sums.as<void>(), sizeof got);
  EXPECT_TRUE(stream().Synchronize().ok());
  for (const auto& [begin, end] : {std::pair(7, 32), {32, 64}, {64, 96}, {96, 107}}) {
    of_blocks.Add(BlockOfSquares(&values[begin], end - begin));
  }
  EXPECT_EQ(got.Value(), of_blocks.Value());
}

TEST_P(FlatVectorsTest, ZeroAndFill) {
  const DeviceTensor buffer = PutFloat(Values(kCount, 5));
  ops().Fill(stream(), kCount, 2.5f, buffer.as());
  EXPECT_EQ(Get(buffer), std::vector<float>(kCount, 2.5f));
  ops().Zero(stream(), buffer.as<void>(), kCount * 4);
  EXPECT_EQ(Get(buffer), std::vector<float>(kCount));
}

TEST_P(FlatVectorsTest, AdamWMatchesDouble) {
  const auto g = Random(kCount, 6), p = Values(kCount, 7), m = Values(kCount, 8);
  auto v = Values(kCount, 9);
  for (float& value : v) value = std::abs(value);
  const DeviceTensor gradient = Put(g), master = PutFloat(p), exp_avg = PutFloat(m), exp_avg_sq = PutFloat(v);
  const DeviceTensor parameter = Room(kCount);
  const DecaySegment segments[] = {
      {0, 1001, true}, {1001, 2, false}, {1003, 20000, true}, {21003, kCount - 21003, false}};
  const DeviceTensor control = Control();
  ops().AdamW(stream(), {.segments = segments,
                         .control = control.as<StepControl>(),
                         .gradient = gradient.tensor(),
                         .master = master.as(),
                         .exp_avg = exp_avg.as(),
                         .exp_avg_sq = exp_avg_sq.as(),
                         .parameter = parameter.tensor()});
  std::vector<double> want_p, want_m, want_v;
  for (int64_t i = 0; i < kCount; ++i) {
    const double grad = g[i] * kGradientScale;
    want_m.push_back(kRule.beta1 * m[i] + (1 - kRule.beta1) * grad);
    want_v.push_back(kRule.beta2 * v[i] + (1 - kRule.beta2) * grad * grad);
    const double corrected_m = want_m[i] / (1 - std::pow(kRule.beta1, 3));
    const double corrected_v = want_v[i] / (1 - std::pow(kRule.beta2, 3));
    const bool decays = i < 1001 || (i >= 1003 && i < 21003);
    want_p.push_back(p[i] * (decays ? 1 - kRule.learning_rate * kRule.weight_decay : 1) -
                     kRule.learning_rate * corrected_m / (std::sqrt(corrected_v) + kRule.epsilon));
  }
  ExpectClose(Get(exp_avg), want_m, DType::kF32);
  ExpectClose(Get(exp_avg_sq), want_v, DType::kF32);
  ExpectUpdated(master, parameter, want_p);
}

TEST_P(FlatVectorsTest, AdamWOfARangeEqualsThatRangeOfTheWhole) {
  const auto g = Random(kCount, 6), p = Values(kCount, 7), m = Values(kCount, 8), v = std::vector<float>(kCount, 0.1f);
  const auto run = [&](const std::vector<std::pair<int64_t, int64_t>>& ranges) {
    const DeviceTensor gradient = Put(g), master = PutFloat(p), exp_avg = PutFloat(m), exp_avg_sq = PutFloat(v);
    const Tensor fp32_parameter = master.tensor();  // in fp32 the parameter may be the master itself
    const DeviceTensor control = Control();
    for (const auto& [begin, end] : ranges) {
      const DecaySegment all{0, end - begin, true};
      ops().AdamW(stream(), {.segments = {&all, 1},
                             .control = control.as<StepControl>(),
                             .gradient = gradient.tensor().Offset(begin),
                             .master = master.as() + begin,
                             .exp_avg = exp_avg.as() + begin,
                             .exp_avg_sq = exp_avg_sq.as() + begin,
                             .parameter = fp32_parameter.Offset(begin)});
    }
    return std::array{Bits(Get(master)), Bits(Get(exp_avg)), Bits(Get(exp_avg_sq))};
  };
  EXPECT_EQ(run({{0, kCount}}), run({{0, 3}, {3, 17}, {17, 12345}, {12345, kCount}}));
}

TEST_P(FlatVectorsTest, AdamWLeavesASkippedStepAlone) {
  const auto p = Values(kCount, 7);
  const DeviceTensor gradient = Put(Random(kCount, 6)), master = PutFloat(p), exp_avg = PutFloat(p),
                     exp_avg_sq = PutFloat(p);
  const DeviceTensor parameter = Room(kCount), control = Control(kRule, /*apply=*/false);
  const DecaySegment all{0, kCount, true};
  ops().AdamW(stream(), {.segments = {&all, 1},
                         .control = control.as<StepControl>(),
                         .gradient = gradient.tensor(),
                         .master = master.as(),
                         .exp_avg = exp_avg.as(),
                         .exp_avg_sq = exp_avg_sq.as(),
                         .parameter = parameter.tensor()});
  for (const DeviceTensor* vector : {&master, &exp_avg, &exp_avg_sq}) EXPECT_EQ(Bits(Get(*vector)), Bits(p));
  EXPECT_EQ(Get(parameter), std::vector<float>(kCount));
}

// torch.optim.SGD: the decay is added to the gradient, and the learning rate is applied to the momentum. PyTorch's
// first momentum is the gradient itself, which is what a momentum of zero gives; this is the third update.
TEST_P(FlatVectorsTest, SgdMatchesDouble) {
  const auto g = Random(kCount, 6), p = Values(kCount, 7), m = Values(kCount, 8);
  const DeviceTensor gradient = Put(g), master = PutFloat(p), momentum = PutFloat(m), parameter = Room(kCount);
  const DecaySegment segments[] = {
      {0, 1001, true}, {1001, 2, false}, {1003, 20000, true}, {21003, kCount - 21003, false}};
  const DeviceTensor control = Control(kSgdRule);
  ops().Sgd(stream(), {.segments = segments,
                       .control = control.as<StepControl>(),
                       .gradient = gradient.tensor(),
                       .master = master.as(),
                       .momentum = momentum.as(),
                       .parameter = parameter.tensor()});
  std::vector<double> want_p, want_m;
  for (int64_t i = 0; i < kCount; ++i) {
    const bool decays = i < 1001 || (i >= 1003 && i < 21003);
    const double grad = g[i] * kGradientScale + (decays ? kSgdRule.weight_decay * p[i] : 0);
    want_m.push_back(kSgdRule.momentum * m[i] + grad);
    want_p.push_back(p[i] - kSgdRule.learning_rate * want_m[i]);
  }
  ExpectClose(Get(momentum), want_m, DType::kF32);
  ExpectUpdated(master, parameter, want_p);
}

TEST_P(FlatVectorsTest, SgdOfARangeEqualsThatRangeOfTheWhole) {
  const auto g = Random(kCount, 6), p = Values(kCount, 7), m = Values(kCount, 8);
  const auto run = [&](const std::vector<std::pair<int64_t, int64_t>>& ranges) {
    const DeviceTensor gradient = Put(g), master = PutFloat(p), momentum = PutFloat(m), control = Control(kSgdRule);
    for (const auto& [begin, end] : ranges) {
      const DecaySegment all{0, end - begin, true};
      ops().Sgd(stream(), {.segments = {&all, 1},
                           .control = control.as<StepControl>(),
                           .gradient = gradient.tensor().Offset(begin),
                           .master = master.as() + begin,
                           .momentum = momentum.as() + begin,
                           .parameter = master.tensor().Offset(begin)});
    }
    return std::array{Bits(Get(master)), Bits(Get(momentum))};
  };
  EXPECT_EQ(run({{0, kCount}}), run({{0, 3}, {3, 17}, {17, 12345}, {12345, kCount}}));
}

TEST_P(FlatVectorsTest, SgdLeavesASkippedStepAlone) {
  const auto p = Values(kCount, 7);
  const DeviceTensor gradient = Put(Random(kCount, 6)), master = PutFloat(p), momentum = PutFloat(p);
  const DeviceTensor parameter = Room(kCount), control = Control(kSgdRule, /*apply=*/false);
  const DecaySegment all{0, kCount, true};
  ops().Sgd(stream(), {.segments = {&all, 1},
                       .control = control.as<StepControl>(),
                       .gradient = gradient.tensor(),
                       .master = master.as(),
                       .momentum = momentum.as(),
                       .parameter = parameter.tensor()});
  for (const DeviceTensor* vector : {&master, &momentum}) EXPECT_EQ(Bits(Get(*vector)), Bits(p));
  EXPECT_EQ(Get(parameter), std::vector<float>(kCount));
}

TEST_P(FlatVectorsTest, FillNormalOfARangeEqualsThatRangeOfTheWhole) {
  const DeviceTensor whole = PutFloat(std::vector<float>(kCount)), parts = PutFloat(std::vector<float>(kCount));
  ops().FillNormal(stream(),
                   {.count = kCount, .seed = 42, .stream_id = 7, .first = 1000, .deviation = 0.02f, .to = whole.as()});
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 1}, {1, 6}, {6, 20001}, {20001, kCount}}) {
    ops().FillNormal(stream(), {.count = end - begin,
                                .seed = 42,
                                .stream_id = 7,
                                .first = 1000 + begin,
                                .deviation = 0.02f,
                                .to = parts.as() + begin});
  }
  EXPECT_EQ(Bits(Get(whole)), Bits(Get(parts)));
}

TEST_P(FlatVectorsTest, FillNormalIsNormal) {
  constexpr int64_t n = 400000;
  const DeviceTensor buffer = PutFloat(std::vector<float>(n)), other = PutFloat(std::vector<float>(n));
  ops().FillNormal(stream(), {.count = n, .seed = 1, .stream_id = 2, .first = 0, .deviation = 1.0f, .to = buffer.as()});
  ops().FillNormal(stream(), {.count = n, .seed = 1, .stream_id = 3, .first = 0, .deviation = 1.0f, .to = other.as()});
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
}  // namespace zerofleet::device
