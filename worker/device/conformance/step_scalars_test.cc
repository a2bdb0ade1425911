// The step's own numbers on every device: the same bits as the functions that define them give on the host.
#include <cmath>

#include "worker/device/conformance/device_fixture.h"

namespace zerofleet::device {
namespace {

class StepScalarsTest : public DeviceTest {
 protected:
  template <typename T>
  DeviceTensor Bytes(const std::vector<T>& values) {
    DeviceTensor memory(device(), static_cast<int64_t>(values.size() * sizeof(T)));
    device().Copy(stream(), memory.as<void>(), values.data(), static_cast<int64_t>(values.size() * sizeof(T)));
    EXPECT_TRUE(stream().Synchronize().ok());
    return memory;
  }
  template <typename T>
  T One(const DeviceTensor& memory) {
    T value;
    device().Copy(stream(), &value, memory.as<void>(), sizeof value);
    EXPECT_TRUE(stream().Synchronize().ok());
    return value;
  }

  // `control` after one step with the ranks' scalars `ranks`.
  StepControl After(StepControl control, const std::vector<StepScalars>& ranks, const StepRule& rule) {
    const DeviceTensor memory = Bytes(std::vector{control}), all = Bytes(ranks);
    ops().BeginStep(stream(), rule.tokens, memory.as<StepControl>());
    ops().DecideStep(stream(), all.as<StepScalars>(), static_cast<int64_t>(ranks.size()), rule,
                     memory.as<StepControl>());
    return One<StepControl>(memory);
  }
};

constexpr LossScaling kScaling = {.dynamic = true, .first = 65536, .most = 16777216, .clean_steps_to_double = 2000};
constexpr StepRule kStepRule = {.tokens = 96,
                                .grad_clip = 0.5,
                                .loss_scaling = kScaling,
                                .learning_rate = 1e-3,
                                .beta1 = 0.9,
                                .beta2 = 0.95,
                                .epsilon = 1e-8,
                                .weight_decay = 0.1};

TEST_P(StepScalarsTest, SumsInOrder) {
  const std::vector<double> losses = {1e16, 1.0, -1e16, 3.0}, squares = {0.1, 0.2, 0.3};
  const DeviceTensor device_losses = Bytes(losses), device_squares = Bytes(squares),
                     mine = Bytes(std::vector<StepScalars>(1));
  ops().SumScalars(stream(), {.losses = device_losses.as<double>(),
                              .loss_count = 4,
                              .squares = device_squares.as<double>(),
                              .square_count = 3,
                              .flags = 5,
                              .mine = mine.as<StepScalars>()});
  const StepScalars got = One<StepScalars>(mine);
  EXPECT_EQ(got.loss_sum, ((1e16 + 1.0) - 1e16) + 3.0);
  EXPECT_EQ(got.squared_norm, 0.1 + 0.2 + 0.3);
  EXPECT_EQ(got.flags, 5u);
}

TEST_P(StepScalarsTest, ExactSumsDoNotDependOnTheRanks) {
  std::vector<double> losses = {1e16, 1.0, -1e16, 3.0, 0.1, 1e-9};
  std::vector<ExactSum> squares(3);
  for (size_t i = 0; i < squares.size(); ++i) squares[i].Add(0.1 * static_cast<double>(i + 1));
  const DeviceTensor device_losses = Bytes(losses), device_squares = Bytes(squares);
  const auto control_of = [&](const std::vector<std::pair<int64_t, int64_t>>& shares) {
    std::vector<ExactScalars> ranks;
    int64_t loss = 0, square = 0;
    for (const auto& [loss_count, square_count] : shares) {
      const DeviceTensor mine = Bytes(std::vector<ExactScalars>(1));
      ops().SumExactScalars(stream(), {.losses = device_losses.as<double>() + loss,
                                       .loss_count = loss_count,
                                       .squares = device_squares.as<ExactSum>() + square,
                                       .square_count = square_count,
                                       .flags = uint64_t{1} << ranks.size(),
                                       .mine = mine.as<ExactScalars>()});
      ranks.push_back(One<ExactScalars>(mine));
      loss += loss_count;
      square += square_count;
    }
    const DeviceTensor memory = Bytes(std::vector{StepControl()}), all = Bytes(ranks);
    ops().DecideStep(stream(), all.as<ExactScalars>(), static_cast<int64_t>(ranks.size()), kStepRule,
                     memory.as<StepControl>());
    return One<StepControl>(memory);
  };
  const StepControl alone = control_of({{6, 3}}), shared = control_of({{1, 0}, {2, 2}, {0, 1}, {3, 0}});
  EXPECT_EQ(alone.loss, (3.0 + 1.0 + 0.1 + 1e-9) / kStepRule.tokens);
  EXPECT_EQ(shared.loss, alone.loss);
  EXPECT_EQ(shared.grad_norm, alone.grad_norm);
  EXPECT_NEAR(alone.grad_norm * alone.grad_norm, 0.6, 1e-12);
  EXPECT_EQ(shared.flags, 15u);
}

TEST_P(StepScalarsTest, DecidesAsTheHostDoes) {
  StepControl before;
  before.loss_scale = 1024;
  before.updates = 7;
  const std::vector<StepScalars> ranks = {{100.0, 3.5e6, 1}, {150.0, 1.25e6, 2}, {130.0, 7e5, 0}};
  const StepControl got = After(before, ranks, kStepRule);
  StepControl want = before;
  BeginStep(kStepRule.tokens, want);
  DecideStep(SumOverRanks(ranks.data(), 3), kStepRule, want);
  EXPECT_EQ(got.loss, want.loss);
  EXPECT_DOUBLE_EQ(got.grad_norm, std::sqrt(5.45e6) / 1024);
  EXPECT_EQ(got.flags, 3u);
  EXPECT_EQ(got.apply, 1u);
  EXPECT_EQ(got.updates, 8);
  EXPECT_EQ(got.clean_steps, 1);
  EXPECT_EQ(got.gradient_scale, static_cast<float>(1024.0 / 96));
  EXPECT_FLOAT_EQ(got.factors.gradient_scale, want.factors.gradient_scale);
  EXPECT_FLOAT_EQ(got.factors.step_size, want.factors.step_size);
  EXPECT_FLOAT_EQ(got.factors.sqrt_correction2, want.factors.sqrt_correction2);
  EXPECT_FLOAT_EQ(got.factors.decay, want.factors.decay);
}

TEST_P(StepScalarsTest, OverflowHalvesTheScaleAndSkips) {
  StepControl before;
  before.loss_scale = kScaling.first;
  before.clean_steps = 9;
  before.updates = 3;
  for (const double norm : {HUGE_VAL, std::nan("")}) {
    const StepControl got = After(before, {{1.0, 1.0, 0}, {1.0, norm, 0}}, kStepRule);
    EXPECT_EQ(got.apply, 0u);
    EXPECT_EQ(got.loss_scale, kScaling.first / 2);
    EXPECT_EQ(got.clean_steps, 0);
    EXPECT_EQ(got.updates, 3);
    EXPECT_EQ(got.skipped, 1);
  }
}

TEST_P(StepScalarsTest, ScaleDoublesAfterEnoughCleanSteps) {
  StepControl control;
  control.loss_scale = 4;
  control.clean_steps = kScaling.clean_steps_to_double - 1;
  control = After(control, {{1.0, 1.0, 0}}, kStepRule);
  EXPECT_EQ(control.loss_scale, 8);
  EXPECT_EQ(control.clean_steps, 0);
  control.clean_steps = kScaling.clean_steps_to_double - 1;
  control.loss_scale = kScaling.most;
  EXPECT_EQ(After(control, {{1.0, 1.0, 0}}, kStepRule).loss_scale, kScaling.most);
}

TEST_P(StepScalarsTest, AFixedScaleStaysOne) {
  StepRule rule = kStepRule;
  rule.loss_scaling = {};
  const StepControl got = After({}, {{1.0, HUGE_VAL, 0}}, rule);
  EXPECT_EQ(got.apply, 0u);
  EXPECT_EQ(got.loss_scale, 1);
}

ZF_CONFORMANCE(StepScalarsTest);

}  // namespace
}  // namespace zerofleet::device
