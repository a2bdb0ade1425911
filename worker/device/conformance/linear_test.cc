// Linear layers on every device: values against a product in double, gradients against finite differences.
#include <cmath>

#include "worker/device/conformance/device_fixture.h"

namespace zerofleet::device {
namespace {

class LinearTest : public DeviceTest {
 protected:
  DeviceTensor Forward(int64_t m, int64_t n, int64_t k, const std::vector<float>& x, const std::vector<float>& w,
                       const std::vector<float>& bias, const std::vector<float>& residual = {}) {
    const DeviceTensor dx = Put(x), dw = Put(w), db = Put(bias), dr = Put(residual);
    DeviceTensor y = Room(m * n);
    ops().LinearForward(stream(), {.m = m,
                                   .n = n,
                                   .k = k,
                                   .x = dx.tensor(),
                                   .w = dw.tensor(),
                                   .bias = bias.empty() ? Tensor{} : db.tensor(),
                                   .residual = residual.empty() ? Tensor{} : dr.tensor(),
                                   .y = y.tensor()});
    return y;
  }
  // How often a sum with a bias is rounded: a GPU's library takes no bias at odd widths, where another kernel adds it.
  int OfBias() { return device().kind() == "cpu" ? 1 : 2; }
};

// y = x w^T + bias, in double.
std::vector<double> ReferenceForward(int64_t m, int64_t n, int64_t k, const std::vector<float>& x,
                                     const std::vector<float>& w, const std::vector<float>& bias) {
  std::vector<double> y(m * n);
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      double sum = bias.empty() ? 0.0 : bias[column];
      for (int64_t i = 0; i < k; ++i) sum += static_cast<double>(x[row * k + i]) * w[column * k + i];
      y[row * n + column] = sum;
    }
  }
  return y;
}

struct LinearShape {
  int64_t m, n, k;
};
// One element; one row of x, which has its own path; odd sizes; one more than a tile; deeper than a panel; two wide
// ones, the last of whole tiles, which a GPU's fused epilogues accept.
const LinearShape kShapes[] = {{1, 1, 1},       {1, 133, 70},  {7, 13, 5},    {129, 257, 33},
                               {130, 50, 1100}, {33, 300, 64}, {64, 256, 128}};

TEST_P(LinearTest, ForwardMatchesDouble) {
  for (const auto& [m, n, k] : kShapes) {
    const auto x = Random(m * k, 1), w = Random(n * k, 2), bias = Random(n, 3);
    ExpectClose(Get(Forward(m, n, k, x, w, bias)), ReferenceForward(m, n, k, x, w, bias), dtype(), OfBias());
    ExpectClose(Get(Forward(m, n, k, x, w, {})), ReferenceForward(m, n, k, x, w, {}), dtype());
  }
}

TEST_P(LinearTest, ForwardAddsTheResidual) {
  for (const auto& [m, n, k] : kShapes) {
    const auto x = Random(m * k, 1), w = Random(n * k, 2), bias = Random(n, 3), residual = Random(m * n, 10);
    auto want = ReferenceForward(m, n, k, x, w, bias);
    for (int64_t i = 0; i < m * n; ++i) want[i] += residual[i];
    ExpectClose(Get(Forward(m, n, k, x, w, bias, residual)), want, dtype(), /*roundings=*/2);
  }
}

double Gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

TEST_P(LinearTest, GeluForwardKeepsWhatCameBefore) {
  for (const auto& [m, n, k] : kShapes) {
    const auto x = Random(m * k, 1), w = Random(n * k, 2), bias = Random(n, 3);
    const DeviceTensor device_x = Put(x), device_w = Put(w), device_bias = Put(bias), before = Room(m * n),
                       y = Room(m * n), again = Room(m * n);
    ops().LinearGeluForward(stream(), {.m = m,
                                       .n = n,
                                       .k = k,
                                       .x = device_x.tensor(),
                                       .w = device_w.tensor(),
                                       .bias = device_bias.tensor(),
                                       .before = before.tensor(),
                                       .y = y.tensor()});
    auto want = ReferenceForward(m, n, k, x, w, bias);
    ExpectClose(Get(before), want, dtype(), OfBias());
    for (double& value : want) value = Gelu(value);
    ExpectClose(Get(y), want, dtype(), /*roundings=*/2);
    ops().GeluForward(stream(), m * n, before.tensor(), again.tensor());
    EXPECT_EQ(Get(again), Get(y));  // a backward that kept only `before` gets the same bits
  }
}

TEST_P(LinearTest, BackwardInputGeluMatchesDouble) {
  for (const auto& [m, n, k] : kShapes) {
    const auto dy = Random(m * n, 4), w = Random(n * k, 5), before = Random(m * k, 11);
    const DeviceTensor device_dy = Put(dy), device_w = Put(w), device_before = Put(before), dbefore = Room(m * k);
    ops().LinearBackwardInputGelu(stream(), {.m = m,
                                             .n = n,
                                             .k = k,
                                             .dy = device_dy.tensor(),
                                             .w = device_w.tensor(),
                                             .before = device_before.tensor(),
                                             .dbefore = dbefore.tensor()});
    std::vector<double> want(m * k);
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t column = 0; column < n; ++column) {
        for (int64_t i = 0; i < k; ++i) {
          want[row * k + i] += static_cast<double>(dy[row * n + column]) * w[column * k + i];
        }
      }
    }
    for (int64_t i = 0; i < m * k; ++i) want[i] *= (Gelu(before[i] + 1e-5) - Gelu(before[i] - 1e-5)) / 2e-5;
    ExpectClose(Get(dbefore), want, dtype(), /*roundings=*/2);
  }
}

TEST_P(LinearTest, BackwardInputMatchesDouble) {
  for (const auto& [m, n, k] : kShapes) {
    const auto dy = Random(m * n, 4), w = Random(n * k, 5);
    const DeviceTensor device_dy = Put(dy), device_w = Put(w), dx = Put(std::vector<float>(m * k, 9.0f));
    ops().LinearBackwardInput(
        stream(), {.m = m, .n = n, .k = k, .dy = device_dy.tensor(), .w = device_w.tensor(), .dx = dx.tensor()});
    std::vector<double> want(m * k);
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t column = 0; column < n; ++column) {
        for (int64_t i = 0; i < k; ++i) {
          want[row * k + i] += static_cast<double>(dy[row * n + column]) * w[column * k + i];
        }
      }
    }
    ExpectClose(Get(dx), want, dtype());
  }
}

TEST_P(LinearTest, BackwardWeightAddsToGradients) {
  for (const auto& [m, n, k] : kShapes) {
    const auto dy = Random(m * n, 6), x = Random(m * k, 7);
    const auto dw_before = Values(n * k, 8), dbias_before = Values(n, 9);
    const DeviceTensor device_dy = Put(dy), device_x = Put(x), dw = PutFloat(dw_before), dbias = PutFloat(dbias_before);
    ops().LinearBackwardWeight(
        stream(),
        {.m = m, .n = n, .k = k, .dy = device_dy.tensor(), .x = device_x.tensor(), .dw = dw.as(), .dbias = dbias.as()});
    std::vector<double> want_dw(dw_before.begin(), dw_before.end()), want_db(dbias_before.begin(), dbias_before.end());
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t column = 0; column < n; ++column) {
        const double g = dy[row * n + column];
        want_db[column] += g;
        for (int64_t i = 0; i < k; ++i) want_dw[column * k + i] += g * x[row * k + i];
      }
    }
    ExpectClose(Get(dw), want_dw, DType::kF32);
    ExpectClose(Get(dbias), want_db, DType::kF32);
  }
}

// Written in the compute type, a gradient is rounded once, whatever was there; in fp32 it has the bits that adding to
// zeros gives. The last shape has more tokens than any device sums up at a time, and rows for several tiles.
TEST_P(LinearTest, BackwardWeightWritesGradients) {
  std::vector<LinearShape> shapes(std::begin(kShapes), std::end(kShapes));
  shapes.push_back({2100, 1200, 48});
  for (const auto& [m, n, k] : shapes) {
    const DeviceTensor dy = Put(Random(m * n, 6)), x = Put(Random(m * k, 7));
    const DeviceTensor added = PutFloat(std::vector<float>(n * k)), dbias = PutFloat(Values(n, 9)),
                       dbias_again = PutFloat(Values(n, 9));
    const DeviceTensor written = PutFloat(std::vector<float>(n * k, NAN)),
                       rounded = Put(std::vector<float>(n * k, NAN));
    LinearBackwardWeightArguments p{
        .m = m, .n = n, .k = k, .dy = dy.tensor(), .x = x.tensor(), .dw = added.as(), .dbias = dbias.as()};
    ops().LinearBackwardWeight(stream(), p);
    p.dw = nullptr;
    p.written = {written.as<void>(), DType::kF32};
    p.dbias = dbias_again.as();
    ops().LinearBackwardWeight(stream(), p);
    EXPECT_EQ(Get(written), Get(added));
    EXPECT_EQ(Get(dbias_again), Get(dbias));
    p.written = rounded.tensor();
    p.dbias = nullptr;
    ops().LinearBackwardWeight(stream(), p);
    const std::vector<float> sums = Get(added);
    ExpectClose(Get(rounded), {sums.begin(), sums.end()}, dtype());
    if (device().kind() != "cpu") continue;
    EXPECT_EQ(Get(rounded), Get(Put(sums))) << m << " x " << n << " x " << k;
  }
}

TEST_P(LinearTest, GradientsMatchFiniteDifferences) {
  if (dtype() != DType::kF32) GTEST_SKIP() << "differences are taken in fp32";
  constexpr int64_t m = 4, n = 6, k = 5;
  const auto x = Random(m * k, 1), w = Random(n * k, 2), bias = Random(n, 3), dy = Random(m * n, 4);
  const DeviceTensor device_dy = Put(dy), device_x = Put(x), device_w = Put(w);
  const DeviceTensor dx = Room(m * k), dw = Room(n * k), dbias = Room(n);
  ops().LinearBackwardInput(
      stream(), {.m = m, .n = n, .k = k, .dy = device_dy.tensor(), .w = device_w.tensor(), .dx = dx.tensor()});
  ops().LinearBackwardWeight(
      stream(),
      {.m = m, .n = n, .k = k, .dy = device_dy.tensor(), .x = device_x.tensor(), .dw = dw.as(), .dbias = dbias.as()});
  ExpectGradient([&](const auto& at) { return Dot(Get(Forward(m, n, k, at, w, bias)), dy); }, x, Get(dx));
  ExpectGradient([&](const auto& at) { return Dot(Get(Forward(m, n, k, x, at, bias)), dy); }, w, Get(dw));
  ExpectGradient([&](const auto& at) { return Dot(Get(Forward(m, n, k, x, w, at)), dy); }, bias, Get(dbias));
}

ZF_CONFORMANCE(LinearTest);

}  // namespace
}  // namespace zerofleet::device
