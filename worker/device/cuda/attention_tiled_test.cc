// The tiled attention kernels compared with a reference in double: head sizes of every variant and between them,
// lengths that do not fill a tile. Runs on a GPU, or on the host where the kernels are emulated.
#include "worker/device/cuda/attention_tiled.h"

#include <algorithm>
#include <cmath>

#include "worker/device/conformance/device_fixture.h"
#include "worker/device/cuda/cuda_device.h"

namespace zerofleet::device::cuda {
namespace {

struct Reference {
  std::vector<double> out, logsumexp, dqkv;
};

// Computes, for one query of one head, its row of out and logsumexp, and adds its part of dqkv.
void AddQuery(const AttentionShape& s, int64_t b, int64_t h, int64_t t, const std::vector<float>& qkv,
              const std::vector<float>& dout, Reference& result) {
  const int64_t d = s.head_size, c = s.heads * d;
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  const auto at = [&](int64_t position, int64_t part) { return ((b * s.time + position) * 3 + part) * c + h * d; };
  const int64_t row = (b * s.time + t) * c + h * d;
  std::vector<double> p(t + 1), dp(t + 1);
  double maximum = -INFINITY, sum = 0, delta = 0;
  for (int64_t u = 0; u <= t; ++u) {
    for (int64_t i = 0; i < d; ++i) p[u] += scale * qkv[at(t, 0) + i] * qkv[at(u, 1) + i];
    maximum = std::max(maximum, p[u]);
  }
  for (double& value : p) sum += value = std::exp(value - maximum);
  result.logsumexp[(b * s.heads + h) * s.time + t] = maximum + std::log(sum);
  for (int64_t u = 0; u <= t; ++u) {
    p[u] /= sum;
    for (int64_t i = 0; i < d; ++i) {
      result.out[row + i] += p[u] * qkv[at(u, 2) + i];
      result.dqkv[at(u, 2) + i] += p[u] * dout[row + i];
      dp[u] += static_cast<double>(dout[row + i]) * qkv[at(u, 2) + i];
    }
    delta += p[u] * dp[u];
  }
  for (int64_t u = 0; u <= t; ++u) {
    const double ds = p[u] * (dp[u] - delta) * scale;
    for (int64_t i = 0; i < d; ++i) {
      result.dqkv[at(t, 0) + i] += ds * qkv[at(u, 1) + i];
      result.dqkv[at(u, 1) + i] += ds * qkv[at(t, 0) + i];
    }
  }
}

Reference InDouble(const AttentionShape& s, const std::vector<float>& qkv, const std::vector<float>& dout) {
  Reference result{std::vector<double>(dout.size()), std::vector<double>(s.batch * s.heads * s.time),
                   std::vector<double>(qkv.size())};
  for (int64_t row = 0; row < s.batch * s.heads * s.time; ++row) {
    AddQuery(s, row / s.time / s.heads, row / s.time % s.heads, row % s.time, qkv, dout, result);
  }
  return result;
}

class TiledAttentionTest : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    auto device = CudaDevice::Create(0);
    if (!device.ok()) GTEST_SKIP() << device.status().message();
    device_ = std::move(device).value();
  }
  void Check(const AttentionShape& shape);

  std::unique_ptr<CudaDevice> device_;
};

void TiledAttentionTest::Check(const AttentionShape& s) {
  const int64_t count = s.batch * s.time * s.heads * s.head_size, rows = s.batch * s.heads * s.time;
  const auto qkv = Values(3 * count, 1, GetParam()), dout = Values(count, 2, GetParam());
  const Reference want = InDouble(s, qkv, dout);
  const DeviceTensor from(*device_, qkv, GetParam()), gradient(*device_, dout, GetParam());
  const DeviceTensor out(*device_, std::vector<float>(count, 7.0f), GetParam());
  const DeviceTensor dqkv(*device_, std::vector<float>(3 * count, 7.0f), GetParam());
  const DeviceTensor logsumexp(*device_, std::vector<float>(rows, 7.0f)),
      delta(*device_, std::vector<float>(rows, 7.0f));
  const auto stream = device_->CreateStream().value();
  TiledAttentionForward(*stream, s, from.tensor(), out.tensor(), logsumexp.as());
  TiledAttentionBackward(*stream, s, from.tensor(), out.tensor(), logsumexp.as(), gradient.tensor(), dqkv.tensor(),
                         delta.as());
  ASSERT_EQ(stream->Synchronize(), absl::OkStatus());
  ExpectClose(out.Read(*device_), want.out, GetParam());
  ExpectClose(logsumexp.Read(*device_), want.logsumexp, DType::kF32);
  ExpectClose(dqkv.Read(*device_), want.dqkv, GetParam());
}

TEST_P(TiledAttentionTest, MatchesDouble) {
  for (const AttentionShape& s : {AttentionShape{2, 1, 2, 5},
                                  {2, 7, 3, 1},
                                  {1, 130, 2, 10},
                                  {1, 64, 1, 32},
                                  {1, 33, 2, 64},
                                  {1, 90, 1, 80},
                                  {2, 65, 1, 128},
                                  {1, 40, 2, 200},
                                  {1, 35, 1, 256}}) {
    SCOPED_TRACE(::testing::Message() << "T " << s.time << " D " << s.head_size);
    Check(s);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, TiledAttentionTest, ::testing::Values(DType::kF32, DType::kBF16, DType::kF16),
                         [](const auto& info) { return DTypeName(info.param); });

}  // namespace
}  // namespace zerofleet::device::cuda
