// Clipping, the update's factors and the loss scale, from their definitions; conformance/step_scalars_test.cc runs them
// on devices.
#include "worker/device/step_control.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace zerofleet::device {
namespace {

// As PyTorch's clip_grad_norm_.
TEST(ClipCoefficient, OnlyShrinks) {
  EXPECT_EQ(ClipCoefficient(0.5, 1.0), 1.0);
  EXPECT_NEAR(ClipCoefficient(4.0, 1.0), 0.25, 1e-6);
  EXPECT_EQ(ClipCoefficient(4.0, 0.0), 1.0);
}

TEST(DecideStep, NormAndClipAreOfUnscaledGradients) {
  const StepRule rule{.tokens = 10,
                      .grad_clip = 1.0,
                      .loss_scaling = {.dynamic = true},
                      .learning_rate = 0.1,
                      .beta1 = 0.9,
                      .beta2 = 0.99,
                      .epsilon = 1e-8,
                      .momentum = 0.75,
                      .weight_decay = 0.5};
  StepControl control;
  control.loss_scale = 8;
  BeginStep(rule.tokens, control);
  EXPECT_EQ(control.gradient_scale, 0.8f);
  DecideStep({.loss_sum = 25, .squared_norm = 64.0 * 16, .flags = 1}, rule, control);
  EXPECT_EQ(control.loss, 2.5);
  EXPECT_EQ(control.grad_norm, 4.0);
  EXPECT_NEAR(control.factors.gradient_scale, 0.25 / 8, 1e-7);
  EXPECT_NEAR(control.factors.decay, 0.95, 1e-7);
  EXPECT_EQ(control.factors.weight_decay, 0.5f);
  EXPECT_EQ(control.factors.momentum, 0.75f);
  EXPECT_NEAR(control.factors.step_size, 0.1 / (1 - 0.9), 1e-6);  // the first update
  EXPECT_NEAR(control.factors.sqrt_correction2, std::sqrt(1 - 0.99), 1e-7);
}

// A foreign model's passes report what their loss is divided by, and its gradients are those of the summed loss.
TEST(DecideStep, DividesByTheWeightsWhereTokensAreNotKnown) {
  const StepRule rule{.tokens = 0, .grad_clip = 1.0, .loss_scaling = {}, .learning_rate = 0.1};
  const double losses[] = {10, 15}, weights[] = {4, 6};
  StepControl control;
  DecideStep(SumOfScalars(losses, weights, 2, nullptr, 0, 0), rule, control);
  EXPECT_EQ(control.loss, 2.5);
  StepScalars total = SumOfScalars(losses, weights, 2, nullptr, 0, 0);
  total.squared_norm = 64.0 * 100;
  DecideStep(total, rule, control);
  EXPECT_EQ(control.grad_norm, 8.0);
  EXPECT_NEAR(control.factors.gradient_scale, 1.0 / 8 / 10, 1e-7);
  ExactScalars exact = ExactSumOfScalars(losses, weights, 2, nullptr, 0, 0);
  EXPECT_EQ(SumOverRanks(&exact, 1).weight, 10);
  EXPECT_EQ(SumOfScalars(losses, nullptr, 2, nullptr, 0, 0).weight, 0);
}

constexpr StepRule kScaledRule{.tokens = 1,
                               .grad_clip = 0,
                               .loss_scaling = {.dynamic = true},
                               .learning_rate = 0.1,
                               .beta1 = 0.9,
                               .beta2 = 0.99,
                               .epsilon = 1e-8,
                               .weight_decay = 0};

// AdamW's bias correction counts updates, not steps: a step that overflowed makes no update.
TEST(DecideStep, TheStepAfterAnOverflowIsTheFirstUpdate) {
  StepControl control;
  control.loss_scale = 8;
  DecideStep({.loss_sum = 1, .squared_norm = std::numeric_limits<double>::infinity(), .flags = 0}, kScaledRule,
             control);
  EXPECT_EQ(control.apply, 0u);
  EXPECT_EQ(control.updates, 0);
  DecideStep({.loss_sum = 1, .squared_norm = 1, .flags = 0}, kScaledRule, control);
  EXPECT_EQ(control.apply, 1u);
  EXPECT_EQ(control.updates, 1);
  EXPECT_EQ(control.skipped, 1);
  EXPECT_EQ(control.factors.step_size, static_cast<float>(0.1 / (1.0 - 0.9)));
  EXPECT_EQ(control.factors.sqrt_correction2, static_cast<float>(std::sqrt(1.0 - 0.99)));
}

TEST(DecideStep, LossScaleNeverFallsBelowOne) {
  StepControl control;
  control.loss_scale = 4;
  for (const double want : {2.0, 1.0, 1.0}) {
    DecideStep({.loss_sum = std::nan(""), .squared_norm = 1, .flags = 0}, kScaledRule, control);
    EXPECT_EQ(control.loss_scale, want);
  }
  EXPECT_EQ(control.skipped, 3);
}

// Without moment averages there is no bias to correct: the step size is the learning rate, at every update.
TEST(FactorsOf, WithoutBetasTheStepIsTheLearningRate) {
  const StepRule rule{.tokens = 1, .grad_clip = 0, .loss_scaling = {}, .learning_rate = 0.1, .momentum = 0.9};
  for (const int64_t update : {1, 2, 1000}) EXPECT_EQ(FactorsOf(rule, 1.0, update).step_size, 0.1f);
}

// The first updates copy the weights, as that of PyTorch's AveragedModel does. Updates are counted, not steps.
TEST(FactorsOf, AnAverageBeginsWithTheWeights) {
  StepRule rule{
      .tokens = 1, .grad_clip = 0, .loss_scaling = {}, .learning_rate = 0.1, .ema_decay = 0.9, .ema_start = 2};
  EXPECT_EQ(FactorsOf(rule, 1.0, 1).average_share, 1);
  EXPECT_EQ(FactorsOf(rule, 1.0, 2).average_share, 1);
  EXPECT_EQ(FactorsOf(rule, 1.0, 3).average_share, static_cast<float>(1 - 0.9));
  rule.ema_start = 0;
  EXPECT_EQ(FactorsOf(rule, 1.0, 1).average_share, static_cast<float>(1 - 0.9));
}

}  // namespace
}  // namespace zerofleet::device
