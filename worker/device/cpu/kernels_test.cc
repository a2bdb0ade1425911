// The vector kernels on every instruction set that this CPU and this build share, the plain baseline included.
#include "worker/device/cpu/kernels.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "worker/device/element_math.h"
#include "worker/device/random_normal.h"

namespace zerofleet::device {
namespace {

std::vector<float> Values(int64_t count, uint32_t state) {
  std::vector<float> values(count);
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
  }
  return values;
}

Tensor Floats(std::vector<float>& values) { return {values.data(), DType::kF32}; }

// Calls body once for each instruction set that this build and this CPU have, with the kernels switched to it.
void OnEveryTarget(const std::function<void()>& body) {
  const int64_t targets = hwy::SupportedTargets() & (HWY_TARGETS);
  for (int64_t rest = targets; rest != 0; rest &= rest - 1) {
    hwy::SetSupportedTargetsForTest(rest & -rest);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(kernels::TargetName());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(KernelsTest, RoundingIsToBF16) {
  const auto values = Values(1003, 1);
  OnEveryTarget([&] {
    auto from = values;
    from[5] = std::nanf("");
    from[6] = HUGE_VALF;
    for (size_t i = 32; i < 64; i += 5) from[i] *= 0x1p-126f;  // subnormals, beside other numbers
    std::vector<BF16> to(from.size());
    kernels::Convert(static_cast<int64_t>(from.size()), Floats(from), {to.data(), DType::kBF16});
    for (size_t i = 0; i < from.size(); ++i) ASSERT_EQ(to[i].bits, ToBF16(from[i]).bits) << i;
  });
}

TEST(KernelsTest, RoundingIsToF16AndBackIsExact) {
  auto values = Values(1003, 1);
  for (size_t i = 0; i < values.size(); i += 3) values[i] *= i % 2 == 0 ? 1e-5f : 7e4f;  // subnormals and infinities
  OnEveryTarget([&] {
    auto from = values;
    from[5] = std::nanf("");
    from[6] = HUGE_VALF;
    std::vector<F16> to(from.size());
    const auto count = static_cast<int64_t>(from.size());
    kernels::Convert(count, Floats(from), {to.data(), DType::kF16});
    std::vector<float> back(from.size());
    kernels::Convert(count, {to.data(), DType::kF16}, Floats(back));
    for (size_t i = 0; i < from.size(); ++i) {
      if (i == 5) {
        EXPECT_TRUE(std::isnan(back[i]));
        continue;
      }
      ASSERT_EQ(to[i].bits, ToF16(from[i]).bits) << from[i];
      ASSERT_EQ(back[i], ToFloat(to[i])) << from[i];
    }
  });
}

TEST(KernelsTest, ProductsWithAVectorAreSumsOnEveryTarget) {
  for (const int64_t k : {1, 31, 64, 200}) {
    constexpr int64_t kRows = 5;
    auto matrix = Values(kRows * k, 3), vector = Values(k, 4), weights = Values(kRows, 5);
    std::vector<BF16> half_matrix(matrix.size()), half_vector(vector.size());
    kernels::Convert(kRows * k, Floats(matrix), {half_matrix.data(), DType::kBF16});
    kernels::Convert(k, Floats(vector), {half_vector.data(), DType::kBF16});
    OnEveryTarget([&] {
      std::vector<float> dots(kRows), half_dots(kRows), sums(k), half_sums(k);
      kernels::RowDots(kRows, k, Floats(vector), Floats(matrix), dots.data());
      kernels::RowDots(kRows, k, {half_vector.data(), DType::kBF16}, {half_matrix.data(), DType::kBF16},
                       half_dots.data());
      kernels::WeightedRows(kRows, k, weights.data(), Floats(matrix), sums.data());
      kernels::WeightedRows(kRows, k, weights.data(), {half_matrix.data(), DType::kBF16}, half_sums.data());
      for (int64_t row = 0; row < kRows; ++row) {
        double dot = 0, half_dot = 0;
        for (int64_t i = 0; i < k; ++i) {
          dot += static_cast<double>(vector[i]) * matrix[row * k + i];
          half_dot += static_cast<double>(ToFloat(half_vector[i])) * ToFloat(half_matrix[row * k + i]);
        }
        ASSERT_NEAR(dots[row], dot, 1e-5) << k;
        ASSERT_NEAR(half_dots[row], half_dot, 1e-5) << k;
      }
      for (int64_t i = 0; i < k; ++i) {
        double sum = 0, half_sum = 0;
        for (int64_t row = 0; row < kRows; ++row) {
          sum += static_cast<double>(weights[row]) * matrix[row * k + i];
          half_sum += static_cast<double>(weights[row]) * ToFloat(half_matrix[row * k + i]);
        }
        ASSERT_NEAR(sums[i], sum, 1e-5) << k;
        ASSERT_NEAR(half_sums[i], half_sum, 1e-5) << k;
      }
    });
  }
}

// The error of exp, in units in the last place of the result, over all arguments that softmax and the gates use.
TEST(KernelsTest, ExpIsWithinOneAndAHalfUnitsInTheLastPlace) {
  constexpr int64_t kCount = 200'000;
  std::vector<float> x(kCount);
  for (int64_t i = 0; i < kCount; ++i) x[i] = -87.3f + 175.3f * static_cast<float>(i) / kCount;
  OnEveryTarget([&] {
    std::vector<float> y = x;
    kernels::LogitsGradientRow(kCount, {.largest = 0.0f, .factor = 1.0f}, y.data());
    double worst = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      const double exact = std::exp(static_cast<double>(x[i]));
      worst = std::max(worst, std::abs(y[i] - exact) / std::ldexp(1.0, std::ilogb(exact) - 23));
    }
    EXPECT_LT(worst, 1.5);
    EXPECT_GT(worst, 0.5) << "not measured";
    std::vector<float> ends = {0.0f, -87.4f, -1e30f, -HUGE_VALF, std::nanf("")};
    kernels::LogitsGradientRow(5, {.largest = 0.0f, .factor = 1.0f}, ends.data());
    EXPECT_EQ(ends[0], 1.0f);
    for (const int below : {1, 2, 3}) EXPECT_EQ(ends[below], 0.0f) << below;
    EXPECT_TRUE(std::isnan(ends[4]));
  });
}

// Any range of the stream can be filled, with nearly always the bits of the scalar generator.
TEST(KernelsTest, NormalNumbersAreThoseOfTheGenerator) {
  constexpr int64_t kCount = 20'000;
  std::vector<float> want(kCount);
  for (int64_t i = 0; i < kCount; ++i) want[i] = NormalsOfBlock(7, 3, i / 4, 0.02).value[i % 4];
  OnEveryTarget([&] {
    std::vector<float> all(kCount);
    kernels::FillNormal(kCount, 7, 3, 0, 0.02, all.data());
    int64_t differ = 0;
    for (int64_t i = 0; i < kCount; ++i) {
      ASSERT_NEAR(all[i], want[i], 1e-7f * std::abs(want[i])) << i;
      differ += all[i] != want[i];
    }
    EXPECT_LT(differ, 3);
    for (const int64_t first : {0, 1, 2, 3, 30, 61}) {
      for (const int64_t count : {1, 2, 3, 15, 64, 77}) {
        std::vector<float> part(count);
        kernels::FillNormal(count, 7, 3, first, 0.02, part.data());
        EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + first)) << first << ", " << count;
      }
    }
  });
}

TEST(KernelsTest, SumSquaresHasTheSameBitsEverywhere) {
  auto values = Values(1003, 2);
  const double want = kernels::SumSquares(1003, Floats(values));
  EXPECT_GT(want, 300);
  std::vector<BF16> half(values.size());
  kernels::Convert(1003, Floats(values), {half.data(), DType::kBF16});
  double half_sums[16] = {}, half_want = 0;
  for (size_t i = 0; i < half.size(); ++i) half_sums[i % 16] += std::pow(static_cast<double>(ToFloat(half[i])), 2);
  for (const double sum : half_sums) half_want += sum;
  OnEveryTarget([&] {
    EXPECT_EQ(kernels::SumSquares(1003, Floats(values)), want);
    EXPECT_EQ(kernels::SumSquares(1003, {half.data(), DType::kBF16}), half_want);
  });
}

// The results of several kernels, to be compared between instruction sets.
std::vector<float> ManyKernels() {
  constexpr int64_t n = 101;
  auto x = Values(n, 3), dy = Values(n, 4), gamma = Values(n, 5), beta = Values(n, 6), y = x, dx = x, softmax = x;
  float mean = 0, rstd = 0;
  kernels::Gelu(n, Floats(x), Floats(y));
  std::vector<float> results = y;
  const auto keep = [&](const std::vector<float>& values) {
    results.insert(results.end(), values.begin(), values.end());
  };
  kernels::GeluGradient(n, Floats(x), Floats(dy), Floats(dx));
  keep(dx);
  kernels::LayerNormRow(n, 1e-5f, Floats(x), Floats(gamma), Floats(beta), Floats(y), &mean, &rstd);
  keep(y);
  std::vector<float> dgamma(n), dbeta(n);
  kernels::LayerNormRowsGradient(1, n, Floats(dy), Floats(x), Floats(gamma), &mean, &rstd, Floats(dx), dgamma.data(),
                                 dbeta.data());
  for (const auto& sums : {dx, dgamma, dbeta}) keep(sums);
  results.push_back(kernels::SoftmaxRow(n, 0.5f, softmax.data()));
  keep(softmax);
  results.push_back(static_cast<float>(kernels::CrossEntropyRow(n, 17, Floats(x), 0.25f, x.data())));
  keep(x);
  kernels::SumRows(1, n, n, Floats(dy), beta.data());
  keep(beta);
  return results;
}

// The factors of the third update.
UpdateFactors ThirdUpdate(double gradient_scale) {
  return FactorsOf({.tokens = 1,
                    .grad_clip = 0,
                    .loss_scaling = {},
                    .learning_rate = 1e-2,
                    .beta1 = 0.9,
                    .beta2 = 0.95,
                    .epsilon = 1e-8,
                    .momentum = 0.8,
                    .weight_decay = 0.1},
                   gradient_scale, 3);
}

// element_math.inc gives the same for one float at a time as for vectors.
TEST(KernelsTest, OneElementAtATimeAgrees) {
  constexpr int64_t n = 1003;
  auto x = Values(n, 8), dy = Values(n, 9), y = x, dx = x;
  for (float& value : x) value *= 6.0f;
  kernels::Gelu(n, Floats(x), Floats(y));
  kernels::GeluGradient(n, Floats(x), Floats(dy), Floats(dx));
  const UpdateFactors factors = ThirdUpdate(0.5);
  auto master = Values(n, 10), exp_avg = Values(n, 11), exp_avg_sq = Values(n, 12);
  for (float& value : exp_avg_sq) value = std::abs(value);
  auto p = master, m = exp_avg, v = exp_avg_sq;
  kernels::AdamW(n, factors, true, Floats(dy), p.data(), m.data(), v.data(), Floats(p));
  const auto elements = element::MakeAdamWElements<element::FloatMath>(factors, true);
  auto sgd_p = master, sgd_m = exp_avg;
  kernels::Sgd(n, factors, true, Floats(dy), sgd_p.data(), sgd_m.data(), Floats(sgd_p));
  const auto sgd = element::MakeSgdElements<element::FloatMath>(factors, true);
  for (int64_t i = 0; i < n; ++i) {
    ASSERT_NEAR(y[i], element::Gelu<element::FloatMath>(x[i]), 1e-6 * (1 + std::abs(x[i])));
    ASSERT_NEAR(dx[i], dy[i] * element::GeluSlope<element::FloatMath>(x[i]), 1e-6);
    float momentum = exp_avg[i];
    ASSERT_NEAR(sgd_p[i], element::SgdElement<element::FloatMath>(sgd, dy[i], master[i], momentum), 1e-6);
    ASSERT_NEAR(sgd_m[i], momentum, 1e-6);
    const float want = element::AdamWElement<element::FloatMath>(elements, dy[i], master[i], exp_avg[i], exp_avg_sq[i]);
    ASSERT_NEAR(m[i], exp_avg[i], 1e-6);
    ASSERT_NEAR(v[i], exp_avg_sq[i], 1e-6);
    ASSERT_NEAR(p[i], want, 1e-6);
  }
}

// The weights are the same as without looking ahead; the parameters agree with the equations in double.
TEST(KernelsTest, UpdatesThatLookAheadTakeOneMoreStepWithTheSameGradient) {
  constexpr int64_t n = 203;
  UpdateFactors plain = ThirdUpdate(0.5), ahead = plain;
  ahead.looks_ahead = 1;
  OnEveryTarget([&] {
    for (const bool adamw : {true, false}) {
      const auto gradient = Values(n, 1), before = Values(n, 2), m = Values(n, 3);
      const std::vector<float> v(n, 0.5f);
      const auto update = [&](const UpdateFactors& factors, std::vector<float>& m_now, std::vector<float>& v_now,
                              std::vector<float>& parameter) {
        auto master = before, g = gradient;
        m_now = m, v_now = v, parameter.resize(n);
        if (adamw) {
          kernels::AdamW(n, factors, true, Floats(g), master.data(), m_now.data(), v_now.data(), Floats(parameter));
        } else {
          kernels::Sgd(n, factors, true, Floats(g), master.data(), m_now.data(), Floats(parameter));
        }
        return master;
      };
      std::vector<float> m_plain, v_plain, p_plain, m_ahead, v_ahead, p_ahead;
      const std::vector<float> weights = update(plain, m_plain, v_plain, p_plain);
      EXPECT_EQ(update(ahead, m_ahead, v_ahead, p_ahead), weights);
      EXPECT_EQ(p_plain, weights);
      EXPECT_EQ(m_ahead, m_plain);
      EXPECT_EQ(v_ahead, v_plain);
      for (int64_t i = 0; i < n; ++i) {
        const double scaled = static_cast<double>(gradient[i]) * plain.gradient_scale;
        const double next = adamw ? m_plain[i] + (scaled - m_plain[i]) * plain.one_minus_beta1
                                  : m_plain[i] * plain.momentum + scaled + before[i] * plain.weight_decay;
        const double divisor = adamw ? std::sqrt(v_plain[i]) / plain.sqrt_correction2 + plain.epsilon : 1.0;
        ASSERT_NEAR(p_ahead[i], weights[i] - plain.step_size * next / divisor, 1e-6) << i;
      }
    }
  });
}

// Parameters that are stored past the caches, and parameters whose alignment does not allow that.
TEST(KernelsTest, UpdatesStoreTheRoundedMasterWhereverItLies) {
  constexpr int64_t n = 203, kMostShift = 33;
  const UpdateFactors factors = ThirdUpdate(1.0);
  OnEveryTarget([&] {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      for (const int64_t shift : {int64_t{0}, int64_t{1}, int64_t{8}, kMostShift}) {
        for (const bool adamw : {true, false}) {
          auto gradient = Values(n, 1), master = Values(n, 2), m = Values(n, 3), v = std::vector<float>(n, 0.5f);
          std::vector<float> memory(n + kMostShift, -7.0f), wanted(n), got(n);
          const Tensor parameter = Tensor{memory.data(), dtype}.Offset(shift);
          if (adamw) {
            kernels::AdamW(n, factors, true, Floats(gradient), master.data(), m.data(), v.data(), parameter);
          } else {
            kernels::Sgd(n, factors, true, Floats(gradient), master.data(), m.data(), parameter);
          }
          std::vector<float> rounded(n);
          kernels::Convert(n, Floats(master), {rounded.data(), dtype});
          kernels::Convert(n, {rounded.data(), dtype}, Floats(wanted));
          kernels::Convert(n, parameter, Floats(got));
          ASSERT_EQ(got, wanted) << DTypeName(dtype) << ", " << shift << (adamw ? ", adamw" : ", sgd");
        }
      }
    }
  });
}

TEST(KernelsTest, InstructionSetsAgree) {
  const auto want = ManyKernels();
  OnEveryTarget([&] {
    const auto got = ManyKernels();
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 3e-6 * (1 + std::abs(want[i]))) << i;
  });
}

}  // namespace
}  // namespace zerofleet::device
