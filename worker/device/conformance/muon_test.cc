// Muon's ops on every device, against the same in double; that a sub-range has the bits of the whole, and that a
// skipped step changes nothing.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "worker/device/conformance/device_fixture.h"

namespace zerofleet::device {
namespace {

class MuonTest : public DeviceTest {
 protected:
  static constexpr int64_t kCount = 40003;  // several blocks and a ragged end
  static constexpr double kGradientScale = 0.7, kDecay = 1 - 3e-4 * 0.1;
  static constexpr StepRule kRule = {
      .tokens = 1, .grad_clip = 0, .loss_scaling = {}, .learning_rate = 3e-4, .momentum = 0.95, .weight_decay = 0.1};
  static constexpr float kScale = 0.01f;

  using Ranges = std::vector<std::pair<int64_t, int64_t>>;

  DeviceTensor Control(bool apply) {
    StepControl control;
    control.apply = apply ? 1 : 0;
    control.factors = FactorsOf(kRule, kGradientScale, 3);
    DeviceTensor memory(device(), int64_t{sizeof control});
    device().Copy(stream(), memory.as<void>(), &control, sizeof control);
    return memory;
  }

  // The momentum and the direction, range by range.
  std::array<std::vector<float>, 2> Direct(const Ranges& ranges, bool ahead, bool apply = true) {
    const DeviceTensor gradient = Put(gradient_), momentum = PutFloat(momentum_), to = Room(kCount),
                       control = Control(apply);
    for (const auto& [begin, end] : ranges) {
      ops().MuonDirection(stream(), {.count = end - begin,
                                     .control = control.as<StepControl>(),
                                     .gradient = gradient.tensor().Offset(begin),
                                     .momentum = momentum.as() + begin,
                                     .ahead = ahead,
                                     .to = to.tensor().Offset(begin)});
    }
    return {Get(momentum), Get(to)};
  }

  // The new weights, in place, and in another tensor of the compute type.
  std::array<std::vector<float>, 2> Move(const Ranges& ranges, bool decays, bool apply = true) {
    const DeviceTensor weights = PutFloat(weights_), direction = PutFloat(direction_), other = Room(kCount),
                       control = Control(apply);
    for (const auto& [begin, end] : ranges) {
      for (const Tensor& to : {other.tensor(), weights.tensor()}) {
        ops().MuonMove(stream(), {.count = end - begin,
                                  .control = control.as<StepControl>(),
                                  .decays = decays,
                                  .scale = kScale,
                                  .direction = direction.as() + begin,
                                  .from = weights.as() + begin,
                                  .to = to.Offset(begin)});
      }
    }
    return {Get(weights), Get(other)};
  }

  std::vector<float> Normal(const std::vector<float>& values, double least) {
    const DeviceTensor x = PutFloat(values), sum(device(), int64_t{sizeof(double)});
    const auto count = static_cast<int64_t>(values.size());
    ops().SumSquares(stream(), count, x.tensor(), sum.as<double>());
    ops().DivideByNorm(stream(), count, sum.as<double>(), least, x.as());
    return Get(x);
  }

  const std::vector<float> gradient_ = Random(kCount, 1), momentum_ = Values(kCount, 2);
  const std::vector<float> weights_ = Values(kCount, 3), direction_ = Values(kCount, 4);
  const Ranges whole_ = {{0, kCount}}, ranges_ = {{0, 3}, {3, 17}, {17, 12345}, {12345, kCount}};
};

// torch.optim.Muon with nesterov; one more step with the same gradient begins with this step's momentum.
TEST_P(MuonTest, TheDirectionMatchesDouble) {
  std::vector<double> moved, direction;
  for (int64_t i = 0; i < kCount; ++i) {
    const double g = gradient_[i] * kGradientScale;
    moved.push_back(momentum_[i] + (1 - kRule.momentum) * (g - momentum_[i]));
    direction.push_back(g + kRule.momentum * (moved[i] - g));
  }
  const auto [momentum, to] = Direct(whole_, /*ahead=*/false);
  ExpectClose(momentum, moved, DType::kF32);
  ExpectClose(to, direction, dtype());
  const auto [kept, ahead] = Direct(whole_, /*ahead=*/true);
  EXPECT_EQ(kept, momentum_);
  EXPECT_EQ(ahead, to);
}

TEST_P(MuonTest, TheWeightsMatchDouble) {
  for (const bool decays : {false, true}) {
    std::vector<double> want;
    for (int64_t i = 0; i < kCount; ++i) {
      want.push_back(weights_[i] * (decays ? kDecay : 1) - static_cast<double>(kScale) * direction_[i]);
    }
    const auto [weights, other] = Move(whole_, decays);
    ExpectClose(weights, want, DType::kF32);
    ExpectClose(other, want, dtype());
  }
}

TEST_P(MuonTest, ARangeEqualsThatRangeOfTheWhole) {
  EXPECT_EQ(Direct(ranges_, false), Direct(whole_, false));
  EXPECT_EQ(Move(ranges_, true), Move(whole_, true));
}

TEST_P(MuonTest, ASkippedStepChangesNothing) {
  const std::vector<float> zeros(kCount);
  EXPECT_EQ(Direct(whole_, false, /*apply=*/false), (std::array{momentum_, zeros}));
  EXPECT_EQ(Move(whole_, true, /*apply=*/false), (std::array{weights_, zeros}));
}

TEST_P(MuonTest, DividesByTheNorm) {
  for (const int64_t count : {int64_t{1}, int64_t{9}, kCount}) {
    const auto values = Values(count, 5);
    const double norm = std::sqrt(Dot(values, values));
    std::vector<double> want;
    for (const float value : values) want.push_back(value / norm);
    ExpectClose(Normal(values, 1e-7), want, DType::kF32);
    for (double& value : want) value *= norm / 1000;
    ExpectClose(Normal(values, 1000), want, DType::kF32);
  }
  EXPECT_EQ(Normal({0.0f, 0.0f}, 1e-7), (std::vector<float>{0.0f, 0.0f}));
  const auto of_nan = Normal({1.0f, std::nanf("")}, 1e-7);
  EXPECT_TRUE(std::isnan(of_nan[0]) && std::isnan(of_nan[1]));
}

ZF_CONFORMANCE(MuonTest);

}  // namespace
}  // namespace zerofleet::device
