// GELU on every device, alone and as part of the linear layers around it.
#include <cmath>
#include <limits>

#include "worker/device/conformance/device_fixture.h"

namespace zerofleet::device {
namespace {

class ElementwiseTest : public DeviceTest {
 protected:
  std::vector<float> Gelu(const std::vector<float>& x) {
    const DeviceTensor from = Put(x), to = Room(x.size());
    ops().GeluForward(stream(), x.size(), from.tensor(), to.tensor());
    return Get(to);
  }
  // The gradient through an identity layer and the GELU, so the GELU's own gradient.
  std::vector<float> GeluGradient(const std::vector<float>& x, const std::vector<float>& dy) {
    const auto count = static_cast<int64_t>(x.size());
    const DeviceTensor one = Put({1.0f}), before = Put(x), upstream = Put(dy), gradient = Room(count);
    ops().LinearBackwardInputGelu(stream(), {.m = count,
                                             .n = 1,
                                             .k = 1,
                                             .dy = upstream.tensor(),
                                             .w = one.tensor(),
                                             .before = before.tensor(),
                                             .dbefore = gradient.tensor()});
    return Get(gradient);
  }
  // Values in [-8, 8).
  std::vector<float> Wide(int64_t count, int salt) {
    auto values = Random(count, salt);
    for (float& value : values) value *= 8;
    return values;
  }
};

double ReferenceGelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

TEST_P(ElementwiseTest, GeluMatchesDouble) {
  for (const int64_t count : {1, 7, 64, 1003, 40001}) {
    const auto x = Wide(count, 1);
    std::vector<double> want;
    for (const float value : x) want.push_back(ReferenceGelu(value));
    ExpectClose(Gelu(x), want, dtype());
  }
}

TEST_P(ElementwiseTest, GeluGradientMatchesDifferencesInDouble) {
  const auto x = Wide(1003, 2), dy = Random(1003, 3);
  std::vector<double> want;
  for (size_t i = 0; i < x.size(); ++i) {
    want.push_back(dy[i] * (ReferenceGelu(x[i] + 1e-5) - ReferenceGelu(x[i] - 1e-5)) / 2e-5);
  }
  ExpectClose(GeluGradient(x, dy), want, dtype());
}

TEST_P(ElementwiseTest, GeluOfExtremes) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto y = Gelu({-1e4f, 1e4f, -0.0f, nan});
  EXPECT_NEAR(y[0], 0.0f, 1e-30f);
  EXPECT_EQ(y[1], Rounded(1e4f, dtype()));
  EXPECT_EQ(y[2], 0.0f);
  EXPECT_TRUE(std::isnan(y[3]));
  EXPECT_TRUE(std::isnan(GeluGradient({nan}, {1.0f})[0]));
}

TEST_P(ElementwiseTest, ColumnsAreScaledAndAdded) {
  for (const int64_t n : {1, 8, 35}) {
    const int64_t m = 11, from_columns = n + 4, to_columns = 2 * n + 1, from_first = 3, to_first = n;
    const auto x = Random(m * from_columns, 1), before = Random(m * to_columns, 2);
    for (const bool add : {false, true}) {
      const DeviceTensor from = Put(x), to = Put(before);
      ops().Columns(stream(), {.m = m,
                               .n = n,
                               .from = from.tensor(),
                               .from_columns = from_columns,
                               .from_first = from_first,
                               .scale = 0.75f,
                               .add = add,
                               .to = to.tensor(),
                               .to_columns = to_columns,
                               .to_first = to_first});
      std::vector<float> want = before;
      for (int64_t i = 0; i < m * n; ++i) {
        float& element = want[i / n * to_columns + to_first + i % n];
        element = (add ? element : 0.0f) + 0.75f * x[i / n * from_columns + from_first + i % n];
      }
      ExpectClose(Get(to), {want.begin(), want.end()}, dtype());
    }
  }
}

ZF_CONFORMANCE(ElementwiseTest);

}  // namespace
}  // namespace zerofleet::device
