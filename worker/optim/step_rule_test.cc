// Segments cover a piece exactly, and the configuration's values reach the update under their own names.
#include "worker/optim/step_rule.h"

#include "gtest/gtest.h"
#include "worker/model/model_testing.h"
#include "worker/optim/loss_scaling.h"

namespace zerofleet::optim {
namespace {

TEST(DecaySegments, CoverAnyPieceWithoutOverlap) {
  model::ModelSpec spec = *model::ModelSpec::Create(model::TestModelConfig(2, 12, 3, 7, 31));
  for (int64_t begin = 0; begin < spec.parameters(); begin += 97) {
    int64_t end = std::min(begin + 513, spec.parameters()), next = 0;
    for (const device::DecaySegment& segment : DecaySegments(spec, begin, end)) {
      EXPECT_EQ(segment.offset, next);
      next += segment.count;
    }
    EXPECT_EQ(next, end - begin);
  }
}

TEST(DecaySegments, FollowTheTable) {
  model::ModelSpec spec = *model::ModelSpec::Create(model::TestModelConfig(1, 12, 3, 7, 31));
  std::vector<device::DecaySegment> segments = DecaySegments(spec, 0, spec.units()[0].flat_end);
  ASSERT_EQ(segments.size(), 2u);  // wte, then wpe
  EXPECT_TRUE(segments[0].decay);
  EXPECT_EQ(segments[0].count, 31 * 12);
  EXPECT_FALSE(segments[1].decay);
}

TEST(StepRuleOf, TakesEachValueFromItsOwnKey) {
  v1::OptimizerConfig config;
  config.set_beta1(0.5);
  config.set_beta2(0.75);
  config.set_epsilon(0.125);
  config.set_momentum(0.375);
  config.set_weight_decay(0.25);
  config.set_grad_clip(2);
  device::StepRule rule = StepRuleOf(config, /*tokens=*/64, /*learning_rate=*/0.0625, kDynamicLossScaling);
  EXPECT_EQ(rule.beta1, 0.5);
  EXPECT_EQ(rule.beta2, 0.75);
  EXPECT_EQ(rule.epsilon, 0.125);
  EXPECT_EQ(rule.momentum, 0.375);
  EXPECT_EQ(rule.weight_decay, 0.25);
  EXPECT_EQ(rule.grad_clip, 2);
  EXPECT_EQ(rule.tokens, 64);
  EXPECT_EQ(rule.learning_rate, 0.0625);
  EXPECT_TRUE(rule.loss_scaling.dynamic);
  EXPECT_EQ(rule.loss_scaling.most, kDynamicLossScaling.most);
}

// Micikevicius et al. 2018, §3.2: only fp16 is scaled.
TEST(LossScaling, IsDynamicInFp16Alone) {
  EXPECT_TRUE(LossScalingOf(device::DType::kF16).dynamic);
  EXPECT_EQ(LossScalingOf(device::DType::kF16).first, 0x1p16);
  for (const device::DType dtype : {device::DType::kBF16, device::DType::kF32}) {
    EXPECT_FALSE(LossScalingOf(dtype).dynamic);
    EXPECT_EQ(LossScalingOf(dtype).first, 1);
  }
}

}  // namespace
}  // namespace zerofleet::optim
