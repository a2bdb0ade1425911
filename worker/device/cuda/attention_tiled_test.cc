// The tiled attention kernels compared with a reference in double: head sizes of every variant and between them,
// lengths that do not fill a tile, sequences of one document and of several. Runs on a GPU, or on the host where the
// kernels are emulated.
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

// Computes, for one query of one head, its row of out and logsumexp, and adds its part of dqkv. It sees the positions
// from `start` on.
void AddQuery(const AttentionShape& s, int64_t b, int64_t h, int64_t t, int64_t start, const std::vector<float>& qkv,
              const std::vector<float>& dout, Reference& result) {
  const int64_t d = s.head_size, c = s.heads * d;
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  const auto at = [&](int64_t position, int64_t part) { return ((b * s.time + position) * 3 + part) * c + h * d; };
  const int64_t row = (b * s.time + t) * c + h * d;
  std::vector<double> p(t + 1), dp(t + 1);
  double maximum = -INFINITY, sum = 0, delta = 0;
  for (int64_t u = start; u <= t; ++u) {
    for (int64_t i = 0; i < d; ++i) p[u] += scale * qkv[at(t, 0) + i] * qkv[at(u, 1) + i];
    maximum = std::max(maximum, p[u]);
  }
  for (int64_t u = start; u <= t; ++u) sum += p[u] = std::exp(p[u] - maximum);
  result.logsumexp[(b * s.heads + h) * s.time + t] = maximum + std::log(sum);
  for (int64_t u = start; u <= t; ++u) {
    p[u] /= sum;
    for (int64_t i = 0; i < d; ++i) {
      result.out[row + i] += p[u] * qkv[at(u, 2) + i];
      result.dqkv[at(u, 2) + i] += p[u] * dout[row + i];
      dp[u] += static_cast<double>(dout[row + i]) * qkv[at(u, 2) + i];
    }
    delta += p[u] * dp[u];
  }
  for (int64_t u = start; u <= t; ++u) {
    const double ds = p[u] * (dp[u] - delta) * scale;
    for (int64_t i = 0; i < d; ++i) {
      result.dqkv[at(t, 0) + i] += ds * qkv[at(u, 1) + i];
      result.dqkv[at(u, 1) + i] += ds * qkv[at(t, 0) + i];
    }
  }
}

// `starts` is empty where each sequence is one document.
Reference InDouble(const AttentionShape& s, const std::vector<float>& qkv, const std::vector<float>& dout,
                   const std::vector<int32_t>& starts) {
  Reference result{std::vector<double>(dout.size()), std::vector<double>(s.batch * s.heads * s.time),
                   std::vector<double>(qkv.size())};
  for (int64_t row = 0; row < s.batch * s.heads * s.time; ++row) {
    const int64_t sequence = row / s.time / s.heads, t = row % s.time;
    const int64_t start = starts.empty() ? 0 : starts[sequence * s.time + t];
    AddQuery(s, sequence, row / s.time % s.heads, t, start, qkv, dout, result);
  }
  return result;
}

// Documents shorter than a tile and longer than two, other ones in each sequence.
std::vector<int32_t> Documents(const AttentionShape& s) {
  constexpr int64_t kLengths[] = {3, 40, 1, 1, 9, 70, 2};
  std::vector<int32_t> starts;
  for (int64_t sequence = 0, next = 0; sequence < s.batch; ++sequence) {
    for (int64_t t = 0, start = 0, end = kLengths[next++ % 7]; t < s.time; ++t) {
      if (t == end) {
        start = t;
        end += kLengths[next++ % 7];
      }
      starts.push_back(static_cast<int32_t>(start));
    }
  }
  return starts;
}

class TiledAttentionTest : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    auto device = CudaDevice::Create(0);
    if (!device.ok()) GTEST_SKIP() << device.status().message();
    device_ = std::move(device).value();
  }
  struct Result {
    std::vector<float> out, logsumexp, dqkv;
  };
  Result Run(const AttentionShape& shape, const std::vector<float>& qkv, const std::vector<float>& dout,
             const std::vector<int32_t>& starts);
  void Check(const AttentionShape& shape, const std::vector<int32_t>& starts);

  std::unique_ptr<CudaDevice> device_;
};

TiledAttentionTest::Result TiledAttentionTest::Run(const AttentionShape& s, const std::vector<float>& qkv,
                                                   const std::vector<float>& dout, const std::vector<int32_t>& starts) {
  const int64_t count = std::ssize(dout), rows = s.batch * s.heads * s.time;
  const DeviceTensor from(*device_, qkv, GetParam()), gradient(*device_, dout, GetParam()), documents(*device_, starts);
  const DeviceTensor out(*device_, std::vector<float>(count, 7.0f), GetParam());
  const DeviceTensor dqkv(*device_, std::vector<float>(3 * count, 7.0f), GetParam());
  const DeviceTensor logsumexp(*device_, std::vector<float>(rows, 7.0f)),
      delta(*device_, std::vector<float>(rows, 7.0f));
  const auto stream = device_->CreateStream().value();
  TiledAttentionForward(*stream, s, from.tensor(), out.tensor(), logsumexp.as(), documents.as<int32_t>());
  TiledAttentionBackward(*stream, s, from.tensor(), out.tensor(), logsumexp.as(), gradient.tensor(), dqkv.tensor(),
                         delta.as(), documents.as<int32_t>());
  EXPECT_EQ(stream->Synchronize(), absl::OkStatus());
  return {out.Read(*device_), logsumexp.Read(*device_), dqkv.Read(*device_)};
}

void TiledAttentionTest::Check(const AttentionShape& s, const std::vector<int32_t>& starts) {
  const int64_t count = s.batch * s.time * s.heads * s.head_size;
  const auto qkv = Values(3 * count, 1, GetParam()), dout = Values(count, 2, GetParam());
  const Reference want = InDouble(s, qkv, dout, starts);
  const Result got = Run(s, qkv, dout, starts);
  ExpectClose(got.out, want.out, GetParam());
  ExpectClose(got.logsumexp, want.logsumexp, DType::kF32);
  ExpectClose(got.dqkv, want.dqkv, GetParam());
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
    Check(s, {});
    Check(s, Documents(s));
  }
}

TEST_P(TiledAttentionTest, OneDocumentHasTheBitsOfASequence) {
  const AttentionShape s{2, 90, 2, 32};
  const int64_t count = s.batch * s.time * s.heads * s.head_size;
  const auto qkv = Values(3 * count, 1, GetParam()), dout = Values(count, 2, GetParam());
  const Result plain = Run(s, qkv, dout, {}), packed = Run(s, qkv, dout, std::vector<int32_t>(s.batch * s.time));
  EXPECT_EQ(packed.out, plain.out);
  EXPECT_EQ(packed.logsumexp, plain.logsumexp);
  EXPECT_EQ(packed.dqkv, plain.dqkv);
}

// A NaN, even times a probability of 0, shows that a tile was used.
TEST_P(TiledAttentionTest, TilesOfOtherDocumentsAreSkipped) {
  constexpr int64_t kFirst = 128, kTime = 160, kWidth = 8;  // the first document fills two tiles
  const AttentionShape s{1, kTime, 1, kWidth};
  std::vector<int32_t> starts(kTime);
  std::fill(starts.begin() + kFirst, starts.end(), static_cast<int32_t>(kFirst));
  const auto is_nan = [](float value) { return std::isnan(value); };
  for (const bool first_is_nan : {true, false}) {
    auto qkv = Values(kTime * 3 * kWidth, 1, GetParam()), dout = Values(kTime * kWidth, 2, GetParam());
    const int64_t begin = first_is_nan ? 0 : kFirst, end = first_is_nan ? kFirst : kTime;
    std::fill(qkv.begin() + begin * 3 * kWidth, qkv.begin() + end * 3 * kWidth, std::nanf(""));
    const Result got = Run(s, qkv, dout, starts);
    for (int64_t t = 0; t < kTime; ++t) {
      const bool nan = begin <= t && t < end;
      const auto out = got.out.begin() + t * kWidth, dqkv = got.dqkv.begin() + t * 3 * kWidth;
      ASSERT_EQ(std::any_of(out, out + kWidth, is_nan), nan) << t;
      ASSERT_EQ(std::any_of(dqkv, dqkv + 3 * kWidth, is_nan), nan) << t;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, TiledAttentionTest, ::testing::Values(DType::kF32, DType::kBF16, DType::kF16),
                         [](const auto& info) { return DTypeName(info.param); });

}  // namespace
}  // namespace zerofleet::device::cuda
