// The Llama family's ops on every device.
#include "worker/device/llama_ops.h"

#include <cmath>

#include "worker/device/conformance/device_fixture.h"

namespace zerofleet::device {
namespace {

constexpr float kRmsEpsilon = 1e-5f;

class LlamaOpsTest : public DeviceTest {
 protected:
  LlamaOps& llama() { return ops().llama(); }

  struct Normed {
    std::vector<float> y, rstd;
  };
  Normed Norm(int64_t m, int64_t c, const std::vector<float>& x, const std::vector<float>& gamma) {
    const DeviceTensor from = Put(x), weight = Put(gamma), y = Room(m * c), rstd = PutFloat(std::vector<float>(m));
    llama().RmsNormForward(stream(), {.m = m,
                                      .c = c,
                                      .epsilon = kRmsEpsilon,
                                      .x = from.tensor(),
                                      .gamma = weight.tensor(),
                                      .y = y.tensor(),
                                      .rstd = rstd.as()});
    return {Get(y), Get(rstd)};
  }

  // A row holds four heads: two of queries, one of keys, one of values.
  static constexpr int64_t kHeads = 2, kHeadSize = 6, kRow = 4 * kHeadSize;
  Normed HeadNorm(int64_t m, const std::vector<float>& x, const std::vector<float>& gammas) {
    const DeviceTensor from = Put(x), weights = Put(gammas), y = Room(m * kRow),
                       rstd = PutFloat(std::vector<float>(3 * m));
    llama().HeadNormForward(stream(), {.m = m,
                                       .heads = kHeads,
                                       .kv_heads = 1,
                                       .head_size = kHeadSize,
                                       .epsilon = kRmsEpsilon,
                                       .x = from.tensor(),
                                       .gammas = weights.tensor(),
                                       .y = y.tensor(),
                                       .rstd = rstd.as()});
    return {Get(y), Get(rstd)};
  }

  std::vector<float> Turned(int64_t batch, int64_t time, int64_t heads, int64_t columns,
                            const std::vector<float>& frequencies, const std::vector<float>& x, bool back,
                            int64_t past = 0, const std::vector<int32_t>& starts = {}) {
    const DeviceTensor at = Put(x), documents = PutInts(starts);
    llama().Rotate(stream(), {.batch = batch,
                              .time = time,
                              .heads = heads,
                              .head_size = static_cast<int64_t>(2 * frequencies.size()),
                              .columns = columns,
                              .frequencies = frequencies,
                              .past = past,
                              .back = back,
                              .x = at.tensor(),
                              .starts = documents.as<int32_t>()});
    return Get(at);
  }

  std::vector<float> Gated(int64_t m, int64_t n, const std::vector<float>& x) {
    const DeviceTensor from = Put(x), y = Room(m * n);
    llama().GateForward(stream(), {.m = m, .n = n, .x = from.tensor(), .y = y.tensor()});
    return Get(y);
  }
};

TEST_P(LlamaOpsTest, RmsNormMatchesDouble) {
  for (const auto& [m, c] : {std::pair<int64_t, int64_t>{1, 1}, {7, 30}, {300, 129}}) {
    const auto x = Random(m * c, 1), gamma = Random(c, 2);
    std::vector<double> want_y, want_rstd;
    for (int64_t row = 0; row < m; ++row) {
      double squares = 0;
      for (int64_t i = 0; i < c; ++i) squares += std::pow(x[row * c + i], 2) / static_cast<double>(c);
      want_rstd.push_back(1 / std::sqrt(squares + kRmsEpsilon));
      for (int64_t i = 0; i < c; ++i) want_y.push_back(x[row * c + i] * want_rstd.back() * gamma[i]);
    }
    const Normed got = Norm(m, c, x, gamma);
    ExpectClose(got.y, want_y, dtype());
    ExpectClose(got.rstd, want_rstd, DType::kF32);
  }
}

TEST_P(LlamaOpsTest, RmsNormsGradientsMatchDifferences) {
  if (dtype() != DType::kF32) GTEST_SKIP() << "differences are taken in fp32";
  for (const auto& size : {std::pair<int64_t, int64_t>{3, 7}, {70, 20}}) {
    const int64_t m = size.first, c = size.second;
    const auto x = Random(m * c, 1), gamma = Random(c, 2), dy = Random(m * c, 3);
    const DeviceTensor from = Put(x), weight = Put(gamma), upstream = Put(dy),
                       dx = Put(std::vector<float>(m * c, 0.0f));
    const DeviceTensor rstd = PutFloat(Norm(m, c, x, gamma).rstd), dgamma = PutFloat(std::vector<float>(c, 0.0f));
    llama().RmsNormBackward(stream(), {.m = m,
                                       .c = c,
                                       .dy = upstream.tensor(),
                                       .x = from.tensor(),
                                       .gamma = weight.tensor(),
                                       .rstd = rstd.as(),
                                       .dx = dx.tensor(),
                                       .dgamma = dgamma.as()});
    ExpectGradient([&](const auto& at) { return Dot(Norm(m, c, at, gamma).y, dy); }, x, Get(dx), 3);
    ExpectGradient([&](const auto& at) { return Dot(Norm(m, c, x, at).y, dy); }, gamma, Get(dgamma));
  }
}

TEST_P(LlamaOpsTest, HeadNormIsTheRmsNormOfEachHead) {
  constexpr int64_t kTokens = 5;
  const auto x = Random(kTokens * kRow, 1), gammas = Random(2 * kHeadSize, 2);
  const Normed got = HeadNorm(kTokens, x, gammas);
  for (int64_t token = 0; token < kTokens; ++token) {
    for (int64_t head = 0; head < 4; ++head) {
      const auto begin = x.begin() + token * kRow + head * kHeadSize,
                 gamma = gammas.begin() + (head < kHeads ? 0 : kHeadSize), y = got.y.begin() + (begin - x.begin());
      const std::vector<float> from(begin, begin + kHeadSize), out(y, y + kHeadSize);
      if (head == 3) {
        EXPECT_EQ(out, from) << "values";
        continue;
      }
      const Normed want = Norm(1, kHeadSize, from, {gamma, gamma + kHeadSize});
      EXPECT_EQ(out, want.y);
      EXPECT_EQ(got.rstd[head * kTokens + token], want.rstd[0]);
    }
  }
}

TEST_P(LlamaOpsTest, HeadNormsGradientMatchesDifferences) {
  if (dtype() != DType::kF32) GTEST_SKIP() << "differences are taken in fp32";
  constexpr int64_t kTokens = 40;
  const auto x = Random(kTokens * kRow, 1), gammas = Random(2 * kHeadSize, 2), upstream = Random(kTokens * kRow, 3);
  const DeviceTensor from = Put(x), weights = Put(gammas), dy = Put(upstream),
                     rstd = PutFloat(HeadNorm(kTokens, x, gammas).rstd),
                     dgammas = PutFloat(std::vector<float>(2 * kHeadSize, 0.0f));
  llama().HeadNormBackward(stream(), {.m = kTokens,
                                      .heads = kHeads,
                                      .kv_heads = 1,
                                      .head_size = kHeadSize,
                                      .x = from.tensor(),
                                      .gammas = weights.tensor(),
                                      .rstd = rstd.as(),
                                      .dy = dy.tensor(),
                                      .dgammas = dgammas.as()});
  ExpectGradient([&](const auto& at) { return Dot(HeadNorm(kTokens, at, gammas).y, upstream); }, x, Get(dy), 7);
  ExpectGradient([&](const auto& at) { return Dot(HeadNorm(kTokens, x, at).y, upstream); }, gammas, Get(dgammas));
}

TEST_P(LlamaOpsTest, RotationTurnsHalvesByPosition) {
  const std::vector<float> frequencies = {1.0f, 0.1f, 0.01f, 0.5f, 0.25f};
  constexpr int64_t kBatch = 2, kTime = 33, kTurned = 3, kColumns = 44;  // columns behind the heads are left alone
  const auto x = Random(kBatch * kTime * kColumns, 1);
  std::vector<double> want(x.begin(), x.end());
  for (int64_t row = 0; row < kBatch * kTime; ++row) {
    for (int64_t head = 0; head < kTurned; ++head) {
      for (int64_t i = 0; i < 5; ++i) {
        const double angle = static_cast<double>(row % kTime) * frequencies[i];
        const int64_t a = row * kColumns + head * 10 + i, b = a + 5;
        want[a] = x[a] * std::cos(angle) - x[b] * std::sin(angle);
        want[b] = x[b] * std::cos(angle) + x[a] * std::sin(angle);
      }
    }
  }
  const auto turned = Turned(kBatch, kTime, kTurned, kColumns, frequencies, x, /*back=*/false);
  ExpectClose(turned, want, dtype());
  ExpectClose(Turned(kBatch, kTime, kTurned, kColumns, frequencies, turned, /*back=*/true), {x.begin(), x.end()},
              dtype(), 2);
}

TEST_P(LlamaOpsTest, RotationGoesOnFromAPosition) {
  const std::vector<float> frequencies = {1.0f, 0.1f, 0.01f};
  const auto x = Random(9 * 6, 1);
  const auto whole = Turned(1, 9, 1, 6, frequencies, x, /*back=*/false);
  const auto rest = Turned(1, 4, 1, 6, frequencies, {x.begin() + 5 * 6, x.end()}, /*back=*/false, /*past=*/5);
  EXPECT_EQ(rest, std::vector<float>(whole.begin() + 5 * 6, whole.end()));
}

// A document's positions start at 0 wherever the document lies in its sequence.
TEST_P(LlamaOpsTest, APackedDocumentIsTurnedAsIfAlone) {
  const std::vector<float> frequencies = {1.0f, 0.5f};
  const auto x = Random(2 * 3 * 8, 31);
  std::vector<float> twice = x;
  twice.insert(twice.end(), x.begin(), x.end());
  const auto alone = Turned(2, 3, 2, 8, frequencies, x, /*back=*/false);
  auto packed =
      Turned(2, 6, 2, 8, frequencies, twice, /*back=*/false, /*past=*/0, {0, 0, 0, 3, 3, 3, 0, 0, 0, 3, 3, 3});
  std::vector<float> both = alone;
  both.insert(both.end(), alone.begin(), alone.end());
  EXPECT_EQ(packed, both);
}

TEST_P(LlamaOpsTest, GateMatchesDouble) {
  constexpr int64_t kRows = 5, kColumns = 37;
  auto x = Random(kRows * 2 * kColumns, 1);
  for (float& value : x) value *= 8;
  std::vector<double> want;
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = 0; i < kColumns; ++i) {
      const double gate = x[row * 2 * kColumns + i], up = x[row * 2 * kColumns + kColumns + i];
      want.push_back(gate / (1 + std::exp(-gate)) * up);
    }
  }
  ExpectClose(Gated(kRows, kColumns, x), want, dtype());
}

TEST_P(LlamaOpsTest, GatesGradientMatchesDifferences) {
  if (dtype() != DType::kF32) GTEST_SKIP() << "differences are taken in fp32";
  constexpr int64_t kRows = 3, kColumns = 19;
  const auto x = Random(kRows * 2 * kColumns, 1), dy = Random(kRows * kColumns, 2);
  const DeviceTensor from = Put(x), upstream = Put(dy), dx = Room(kRows * 2 * kColumns);
  llama().GateBackward(stream(),
                       {.m = kRows, .n = kColumns, .x = from.tensor(), .dy = upstream.tensor(), .dx = dx.tensor()});
  ExpectGradient([&](const auto& at) { return Dot(Gated(kRows, kColumns, at), dy); }, x, Get(dx));
}

TEST_P(LlamaOpsTest, GateOfLargeNumbersIsFinite) {
  const std::vector<float> got = Gated(1, 2, {-200.0f, 200.0f, 1.0f, 1.0f});
  EXPECT_LT(std::abs(got[0]), 1e-30f);
  EXPECT_EQ(got[1], 200.0f);
}

ZF_CONFORMANCE(LlamaOpsTest);

}  // namespace
}  // namespace zerofleet::device
