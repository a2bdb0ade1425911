// LayerNorm on every device.
#include <cmath>

#include "worker/device/conformance/device_fixture.h"
#include "worker/device/layer_norm_testing.h"

namespace zerofleet::device {
namespace {

class NormTest : public DeviceTest {
 protected:
  struct Result {
    std::vector<float> y, mean, rstd;
  };
  Result Forward(int64_t m, int64_t c, const std::vector<float>& x, const std::vector<float>& gamma,
                 const std::vector<float>& beta) {
    const DeviceTensor dx = Put(x), dg = Put(gamma), db = Put(beta), y = Room(m * c);
    const DeviceTensor mean = PutFloat(std::vector<float>(m)), rstd = PutFloat(std::vector<float>(m));
    ops().LayerNormForward(stream(), {.m = m,
                                      .c = c,
                                      .epsilon = kNormEpsilon,
                                      .x = dx.tensor(),
                                      .gamma = dg.tensor(),
                                      .beta = db.tensor(),
                                      .y = y.tensor(),
                                      .mean = mean.as(),
                                      .rstd = rstd.as()});
    return {Get(y), Get(mean), Get(rstd)};
  }
};

TEST_P(NormTest, ForwardMatchesDouble) {
  for (const auto& [m, c] : {std::pair<int64_t, int64_t>{1, 1}, {7, 30}, {5, 768}, {300, 129}}) {
    auto x = Random(m * c, 1);
    for (float& value : x) value += 4;  // a mean far from 0 must not cost precision
    for (float& value : x) value = Rounded(value, dtype());
    const auto gamma = Random(c, 2), beta = Random(c, 3);
    std::vector<double> want_y, want_mean, want_rstd;
    for (int64_t row = 0; row < m; ++row) {
      double mean = 0, variance = 0;
      for (int64_t i = 0; i < c; ++i) mean += x[row * c + i] / static_cast<double>(c);
      for (int64_t i = 0; i < c; ++i) variance += std::pow(x[row * c + i] - mean, 2) / static_cast<double>(c);
      const double rstd = 1 / std::sqrt(variance + kNormEpsilon);
      want_mean.push_back(mean);
      want_rstd.push_back(rstd);
      for (int64_t i = 0; i < c; ++i) want_y.push_back((x[row * c + i] - mean) * rstd * gamma[i] + beta[i]);
    }
    const Result got = Forward(m, c, x, gamma, beta);
    ExpectClose(got.y, want_y, dtype());
    ExpectClose(got.mean, want_mean, DType::kF32);
    ExpectClose(got.rstd, want_rstd, DType::kF32);
  }
}

// Runs the backward in `dtype` from fixed inputs; dx starts at dx_before, dgamma and dbeta at 1.
struct Gradients {
  std::vector<float> dx, dgamma, dbeta;
};
Gradients Backward(Device& device, DType dtype, int64_t m, int64_t c, const std::vector<float>& dx_before) {
  const auto stream = device.CreateStream().value();
  const DeviceTensor x(device, Values(m * c, 1, DType::kBF16), dtype), gamma(device, Values(c, 2, DType::kBF16), dtype);
  const DeviceTensor beta(device, Values(c, 3, DType::kBF16), dtype), y(device, std::vector<float>(m * c), dtype);
  const DeviceTensor dy(device, Values(m * c, 4, DType::kBF16), dtype), dx(device, dx_before, dtype);
  const DeviceTensor mean(device, std::vector<float>(m)), rstd(device, std::vector<float>(m));
  const DeviceTensor dgamma(device, std::vector<float>(c, 1.0f)), dbeta(device, std::vector<float>(c, 1.0f));
  RunLayerNorm<DeviceTensor>(device.ops(), *stream, {m, c, x, gamma, beta, dy, y, mean, rstd, dx, dgamma, dbeta});
  EXPECT_TRUE(stream->Synchronize().ok());
  return {dx.Read(device), dgamma.Read(device), dbeta.Read(device)};
}

TEST_P(NormTest, GradientsMatchFiniteDifferencesAndAddUp) {
  if (dtype() != DType::kF32) GTEST_SKIP() << "differences are taken in fp32";
  constexpr int64_t m = 3, c = 11;
  const auto x = Values(m * c, 1, DType::kBF16), gamma = Values(c, 2, DType::kBF16), beta = Values(c, 3, DType::kBF16);
  const auto dy = Values(m * c, 4, DType::kBF16), before = Values(m * c, 5);
  Gradients got = Backward(device(), dtype(), m, c, before);
  for (int64_t i = 0; i < m * c; ++i) got.dx[i] -= before[i];
  for (int64_t i = 0; i < c; ++i) --got.dgamma[i], --got.dbeta[i];
  ExpectGradient([&](const auto& at) { return Dot(Forward(m, c, at, gamma, beta).y, dy); }, x, got.dx);
  ExpectGradient([&](const auto& at) { return Dot(Forward(m, c, x, at, beta).y, dy); }, gamma, got.dgamma);
  ExpectGradient([&](const auto& at) { return Dot(Forward(m, c, x, gamma, at).y, dy); }, beta, got.dbeta);
}

TEST_P(NormTest, BackwardAgreesWithFloat) {
  constexpr int64_t m = 300, c = 150;
  const std::vector<float> zeros(m * c);
  const Gradients got = Backward(device(), dtype(), m, c, zeros), want = Backward(device(), DType::kF32, m, c, zeros);
  ExpectClose(got.dx, {want.dx.begin(), want.dx.end()}, dtype());
  ExpectClose(got.dgamma, {want.dgamma.begin(), want.dgamma.end()}, DType::kF32);
  ExpectClose(got.dbeta, {want.dbeta.begin(), want.dbeta.end()}, DType::kF32);
}

ZF_CONFORMANCE(NormTest);

}  // namespace
}  // namespace zerofleet::device
