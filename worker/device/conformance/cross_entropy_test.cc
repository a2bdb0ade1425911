// The fused output head and cross-entropy on every device.
#include <algorithm>
#include <cmath>

#include "worker/device/conformance/device_fixture.h"

namespace zerofleet::device {
namespace {

struct LossShape {
  int64_t m, c, vocab;
};

struct Result {
  double loss = 0;
  std::vector<float> dx, dw;
};

std::vector<int32_t> Targets(const LossShape& s) {
  std::vector<int32_t> targets;
  for (int64_t i = 0; i < s.m; ++i) targets.push_back(static_cast<int32_t>((i * 31 + 5) % s.vocab));
  return targets;
}

class CrossEntropyTest : public DeviceTest {
 protected:
  std::vector<int64_t> masked_;  // tokens whose target is -1
  LossTerms terms_;
  // dw starts at `dw_before`; without the backward, dx and dw keep their values.
  Result Run(const LossShape& s, const std::vector<float>& x, const std::vector<float>& w, float scale, bool backward,
             float dw_before) {
    auto targets = Targets(s);
    for (const int64_t row : masked_) targets[row] = -1;
    const DeviceTensor device_x = Put(x), device_w = Put(w), dx = Room(s.m * s.c);
    const DeviceTensor dw = PutFloat(std::vector<float>(s.vocab * s.c, dw_before));
    const DeviceTensor device_targets(device(), static_cast<int64_t>(targets.size() * sizeof(int32_t)));
    const DeviceTensor loss(device(), int64_t{sizeof(double)}), device_scale = PutFloat({scale});
    const DeviceTensor scratch(device(), ops().CrossEntropyScratchBytes(s.m, s.c, s.vocab, dtype()));
    device().Copy(stream(), device_targets.as<void>(), targets.data(), targets.size() * sizeof(int32_t));
    ops().CrossEntropy(stream(), {.m = s.m,
                                  .c = s.c,
                                  .vocab = s.vocab,
                                  .x = device_x.tensor(),
                                  .w = device_w.tensor(),
                                  .targets = device_targets.as<int32_t>(),
                                  .gradient_scale = device_scale.as(),
                                  .loss_sum = loss.as<double>(),
                                  .dx = backward ? dx.tensor() : Tensor{},
                                  .dw = dw.as(),
                                  .scratch = scratch.as<void>(),
                                  .terms = terms_});
    Result result;
    device().Copy(stream(), &result.loss, loss.as<void>(), sizeof(double));
    result.dx = Get(dx);
    result.dw = Get(dw);
    return result;
  }
};

struct LossReference {
  double loss = 0;
  std::vector<double> dx, dw;
};

LossReference InDouble(const LossShape& s, const std::vector<float>& x, const std::vector<float>& w, double scale,
                       const std::vector<int64_t>& masked = {}, const LossTerms& terms = {}) {
  const auto targets = Targets(s);
  LossReference result{0, std::vector<double>(s.m * s.c), std::vector<double>(s.vocab * s.c)};
  std::vector<double> p(s.vocab);
  for (int64_t row = 0; row < s.m; ++row) {
    if (std::find(masked.begin(), masked.end(), row) != masked.end()) continue;
    double sum = 0, target_logit = 0, logits = 0;
    for (int64_t v = 0; v < s.vocab; ++v) {
      double logit = 0;
      for (int64_t i = 0; i < s.c; ++i) logit += static_cast<double>(x[row * s.c + i]) * w[v * s.c + i];
      if (v == targets[row]) target_logit = logit;
      logits += logit;
      sum += p[v] = std::exp(logit);
    }
    const double log_sum = std::log(sum), smoothing = terms.label_smoothing;
    const double vocab = static_cast<double>(s.vocab);
    result.loss += (1 - smoothing) * (log_sum - target_logit) + smoothing * (log_sum - logits / vocab) +
                   terms.z_loss * log_sum * log_sum;
    for (int64_t v = 0; v < s.vocab; ++v) {
      const double g = scale * (p[v] / sum * (1 + 2 * terms.z_loss * log_sum) - (1 - smoothing) * (v == targets[row]) -
                                smoothing / vocab);
      for (int64_t i = 0; i < s.c; ++i) {
        result.dx[row * s.c + i] += g * w[v * s.c + i];
        result.dw[v * s.c + i] += g * x[row * s.c + i];
      }
    }
  }
  return result;
}

// The last shape takes more than one chunk of logits on CPUs; cuda/linear_test.cc tests chunks on GPUs.
TEST_P(CrossEntropyTest, MatchesDouble) {
  const bool chunks = std::get<0>(GetParam()) == "cpu" && dtype() != DType::kF16;
  for (const LossShape& s : {LossShape{1, 3, 2}, {7, 20, 53}, {40, 12, 256}, {chunks ? 200 : 2, 2, 50257}}) {
    auto x = Random(s.m * s.c, 1), w = Random(s.vocab * s.c, 2);
    for (float& value : w) value *= 4;
    const LossReference want = InDouble(s, x, w, 0.25);
    const Result got = Run(s, x, w, 0.25f, true, 0.5f);
    // A device may keep logits and their gradients in the compute type.
    constexpr int kRoundings = 4;
    EXPECT_NEAR(got.loss, want.loss, (dtype() == DType::kF32 ? 1e-6 : 4e-3) * want.loss);
    ExpectClose(got.dx, want.dx, dtype(), kRoundings);
    std::vector<double> want_dw;
    for (const double value : want.dw) want_dw.push_back(value + 0.5);
    ExpectClose(got.dw, want_dw, dtype(), kRoundings);
  }
}

TEST_P(CrossEntropyTest, TermsMatchDouble) {
  masked_ = {2};
  for (const LossTerms& terms : {LossTerms{0.1f, 0}, {0, 1e-2f}, {0.2f, 1e-3f}}) {
    terms_ = terms;
    for (const LossShape& s : {LossShape{7, 20, 53}, {40, 12, 256}}) {
      auto x = Random(s.m * s.c, 1), w = Random(s.vocab * s.c, 2);
      for (float& value : w) value *= 4;
      const LossReference want = InDouble(s, x, w, 0.25, masked_, terms);
      const Result got = Run(s, x, w, 0.25f, true, 0);
      // The terms reduce the largest gradient, with which errors are compared, or add to gradients of rounded logits.
      constexpr int kRoundings = 6;
      EXPECT_NEAR(got.loss, want.loss, (dtype() == DType::kF32 ? 1e-6 : 4e-3) * want.loss);
      ExpectClose(got.dx, want.dx, dtype(), kRoundings);
      ExpectClose(got.dw, want.dw, dtype(), kRoundings);
      EXPECT_EQ(Run(s, x, w, 0.25f, false, 0).loss, got.loss);
    }
  }
}

// Three chunks of logits, whose gradients are multiplied two at a time where they are rounded.
TEST_P(CrossEntropyTest, SeveralChunksMatchDouble) {
  if (device().kind() != "cpu") GTEST_SKIP() << "more than one chunk of tokens takes too long";
  const LossShape s{520, 8, 33000};
  const auto x = Random(s.m * s.c, 1), w = Random(s.vocab * s.c, 2);
  const LossReference want = InDouble(s, x, w, 0.25, masked_);
  const Result got = Run(s, x, w, 0.25f, true, 0);
  EXPECT_NEAR(got.loss, want.loss, (dtype() == DType::kF32 ? 1e-6 : 4e-3) * want.loss);
  constexpr int kRoundings = 4;
  ExpectClose(got.dx, want.dx, dtype(), kRoundings);
  ExpectClose(got.dw, want.dw, dtype(), kRoundings);
}

TEST_P(CrossEntropyTest, LossAloneLeavesGradientsAlone) {
  const LossShape s{9, 20, 53};
  const auto x = Random(s.m * s.c, 3), w = Random(s.vocab * s.c, 4);
  const Result alone = Run(s, x, w, 1.0f, false, 3.0f);
  EXPECT_EQ(alone.loss, Run(s, x, w, 1.0f, true, 3.0f).loss);
  EXPECT_EQ(alone.dw, std::vector<float>(s.vocab * s.c, 3.0f));
}

// With targets of -1, the loss and the gradients are those of the other tokens alone.
TEST_P(CrossEntropyTest, WhatDoesNotCountChangesNothing) {
  const LossShape s{9, 20, 53};
  auto x = Random(s.m * s.c, 3);
  const auto w = Random(s.vocab * s.c, 4);
  masked_ = {0, 4, 8};
  const Result got = Run(s, x, w, 0.5f, true, 3.0f);
  for (const int64_t row : masked_) {
    for (int64_t i = 0; i < s.c; ++i) {
      EXPECT_EQ(got.dx[row * s.c + i], 0.0f);
      x[row * s.c + i] = 100.0f * static_cast<float>(i);
    }
  }
  const Result others = Run(s, x, w, 0.5f, true, 3.0f);
  EXPECT_EQ(others.loss, got.loss);
  EXPECT_EQ(others.dw, got.dw);
  EXPECT_EQ(Run(s, x, w, 0.5f, false, 3.0f).loss, got.loss);
  const LossReference want = InDouble(s, Random(s.m * s.c, 3), w, 0.5, masked_);
  EXPECT_NEAR(got.loss, want.loss, (dtype() == DType::kF32 ? 1e-6 : 4e-3) * want.loss);
  constexpr int kRoundings = 4;
  ExpectClose(got.dx, want.dx, dtype(), kRoundings);
}

TEST_P(CrossEntropyTest, GradientsMatchFiniteDifferences) {
  if (dtype() != DType::kF32) GTEST_SKIP() << "differences are taken in fp32";
  const LossShape s{3, 5, 11};
  const auto x = Random(s.m * s.c, 5), w = Random(s.vocab * s.c, 6);
  const Result got = Run(s, x, w, 1.0f, true, 0.0f);
  ExpectGradient([&](const auto& at) { return Run(s, at, w, 1.0f, false, 0.0f).loss; }, x, got.dx);
  ExpectGradient([&](const auto& at) { return Run(s, x, at, 1.0f, false, 0.0f).loss; }, w, got.dw);
}

TEST_P(CrossEntropyTest, LargeLogitsDoNotOverflow) {
  const LossShape s{2, 1, 3};  // logits 1000, 0 and -1000, twice; targets are tokens 2 and 0
  const Result got = Run(s, {1000.0f, 1000.0f}, {1.0f, 0.0f, -1.0f}, 1.0f, true, 0.0f);
  EXPECT_EQ(got.loss, 2000.0);
}

TEST_P(CrossEntropyTest, NaNReachesTheLoss) {
  const LossShape s{5, 4, 53};
  auto x = Random(s.m * s.c, 7);
  x[9] = std::nanf("");
  const Result got = Run(s, x, Random(s.vocab * s.c, 8), 1.0f, true, 0.0f);
  EXPECT_TRUE(std::isnan(got.loss));
  EXPECT_TRUE(std::isnan(got.dx[2 * 4]));
  EXPECT_FALSE(std::isnan(got.dx[0]));
}

ZF_CONFORMANCE(CrossEntropyTest);

}  // namespace
}  // namespace zerofleet::device
