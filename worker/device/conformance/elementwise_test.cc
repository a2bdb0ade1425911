// GELU and addition on every device.
#include <cmath>
#include <limits>

#include "worker/device/conformance/device_fixture.h"

namespace zerofleet {
namespace {

class ElementwiseTest : public DeviceTest {
 protected:
  std::vector<float> Gelu(const std::vector<float>& x) {
    const DeviceTensor from = Put(x), to = Room(x.size());
    ops().GeluForward(stream(), x.size(), from.tensor(), to.tensor());
    return Get(to);
  }
  std::vector<float> GeluGradient(const std::vector<float>& x, const std::vector<float>& dy) {
    const DeviceTensor from = Put(x), gradient = Put(dy);
    ops().GeluBackward(stream(), x.size(), from.tensor(), gradient.tensor(), gradient.tensor());
    return Get(gradient);
  }
  // Values in [-8, 8).
  std::vector<float> Wide(int64_t count, int salt) {
    auto values = Random(count, salt);
    for (float& value : values) value *= 8;
    return values;
  }
};

double ReferenceGelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

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
  EXPECT_EQ(y[1], dtype() == DType::kF32 ? 1e4f : ToFloat(ToBF16(1e4f)));
  EXPECT_EQ(y[2], 0.0f);
  EXPECT_TRUE(std::isnan(y[3]));
  EXPECT_TRUE(std::isnan(GeluGradient({nan}, {1.0f})[0]));
}

TEST_P(ElementwiseTest, AddMayBeInPlace) {
  const auto a = Random(1003, 4), b = Random(1003, 5);
  std::vector<double> want;
  for (size_t i = 0; i < a.size(); ++i) want.push_back(static_cast<double>(a[i]) + b[i]);
  const DeviceTensor left = Put(a), right = Put(b), apart = Room(1003);
  ops().Add(stream(), 1003, left.tensor(), right.tensor(), apart.tensor());
  ExpectClose(Get(apart), want, dtype());
  ops().Add(stream(), 1003, left.tensor(), right.tensor(), left.tensor());
  EXPECT_EQ(Get(left), Get(apart));
}

ZF_CONFORMANCE(ElementwiseTest);

}  // namespace
}  // namespace zerofleet
