// Causal attention on every device.
#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "worker/device/conformance/device_fixture.h"

namespace zerofleet::device {
namespace {

int64_t Tokens(const AttentionShape& s) { return s.batch * s.time; }
int64_t Width(const AttentionShape& s) { return s.heads * s.head_size; }
int64_t Elements(const AttentionShape& s) { return Tokens(s) * s.columns(); }  // queries, keys and values

// Filled with NaN: what an op has not written there must not reach its results.
DeviceTensor Scratch(Device& device, const AttentionShape& s) {
  return {device, std::vector<float>(CeilDivide(device.ops().AttentionScratchBytes(s), 4), std::nanf(""))};
}

struct ForwardResult {
  std::vector<float> out, logsumexp;
};

ForwardResult Forward(Device& device, const AttentionShape& s, DType dtype, const std::vector<float>& qkv,
                      const std::vector<int32_t>& starts = {}) {
  const auto stream = device.CreateStream().value();
  const DeviceTensor from(device, qkv, dtype), out(device, std::vector<float>(Tokens(s) * Width(s)), dtype);
  const DeviceTensor logsumexp(device, std::vector<float>(Tokens(s) * s.heads));
  const DeviceTensor scratch = Scratch(device, s), documents(device, starts);
  device.ops().AttentionForward(*stream, {.shape = s,
                                          .qkv = from.tensor(),
                                          .out = out.tensor(),
                                          .logsumexp = logsumexp.as(),
                                          .scratch = scratch.as<void>(),
                                          .starts = documents.as<int32_t>()});
  EXPECT_TRUE(stream->Synchronize().ok());
  return {out.Read(device), logsumexp.Read(device)};
}

std::vector<float> Backward(Device& device, const AttentionShape& s, DType dtype, const std::vector<float>& qkv,
                            const std::vector<float>& dout, const std::vector<int32_t>& starts = {}) {
  const auto stream = device.CreateStream().value();
  const ForwardResult forward = Forward(device, s, dtype, qkv, starts);
  const DeviceTensor from(device, qkv, dtype), out(device, forward.out, dtype), gradient(device, dout, dtype);
  const DeviceTensor logsumexp(device, forward.logsumexp), dqkv(device, std::vector<float>(qkv.size(), 7.0f), dtype);
  const DeviceTensor scratch = Scratch(device, s), documents(device, starts);
  device.ops().AttentionBackward(*stream, {.shape = s,
                                           .qkv = from.tensor(),
                                           .out = out.tensor(),
                                           .logsumexp = logsumexp.as(),
                                           .dout = gradient.tensor(),
                                           .dqkv = dqkv.tensor(),
                                           .scratch = scratch.as<void>(),
                                           .starts = documents.as<int32_t>()});
  EXPECT_TRUE(stream->Synchronize().ok());
  return dqkv.Read(device);
}

struct Reference {
  std::vector<double> out, logsumexp;
};

Reference ReferenceForward(const AttentionShape& s, const std::vector<float>& qkv) {
  const int64_t c = Width(s), d = s.head_size, group = s.heads / s.kv_heads;
  Reference result{std::vector<double>(Tokens(s) * c), std::vector<double>(Tokens(s) * s.heads)};
  const auto element = [&](int64_t b, int64_t t, int64_t part, int64_t h, int64_t i) -> double {
    const int64_t before = part == 0 ? 0 : s.heads + (part - 1) * s.kv_heads;
    return qkv[(b * s.time + t) * s.columns() + (before + (part == 0 ? h : h / group)) * d + i];
  };
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      for (int64_t t = 0; t < s.time; ++t) {
        std::vector<double> p(t + 1);
        double sum = 0;
        for (int64_t u = 0; u <= t; ++u) {
          double score = 0;
          for (int64_t i = 0; i < d; ++i) score += element(b, t, 0, h, i) * element(b, u, 1, h, i);
          sum += p[u] = std::exp(score / std::sqrt(static_cast<double>(d)));
        }
        result.logsumexp[(b * s.heads + h) * s.time + t] = std::log(sum);
        for (int64_t u = 0; u <= t; ++u) {
          for (int64_t i = 0; i < d; ++i) {
            result.out[(b * s.time + t) * c + h * d + i] += p[u] / sum * element(b, u, 2, h, i);
          }
        }
      }
    }
  }
  return result;
}

class AttentionTest : public DeviceTest {};

TEST_P(AttentionTest, ForwardMatchesDouble) {
  for (const AttentionShape& s :
       {AttentionShape{1, 1, 1, 1}, {2, 9, 3, 10}, {1, 130, 2, 16}, {2, 64, 1, 5}, {1, 1, 1, 32}, {1, 75, 2, 144}}) {
    auto qkv = Random(Tokens(s) * 3 * Width(s), 1);
    for (float& value : qkv) value *= 4;
    const Reference want = ReferenceForward(s, qkv);
    const ForwardResult got = Forward(device(), s, dtype(), qkv);
    ExpectClose(got.out, want.out, dtype());
    ExpectClose(got.logsumexp, want.logsumexp, DType::kF32);
  }
}

TEST_P(AttentionTest, LaterTokensChangeNothing) {
  const AttentionShape s{1, 70, 2, 10};
  auto qkv = Random(Tokens(s) * 3 * Width(s), 2);
  const auto before = Forward(device(), s, dtype(), qkv).out;
  for (size_t i = 67 * 3 * Width(s); i < qkv.size(); ++i) qkv[i] = 100;
  const auto after = Forward(device(), s, dtype(), qkv).out;
  for (int64_t i = 0; i < 67 * Width(s); ++i) ASSERT_EQ(before[i], after[i]);
}

// Documents packed into one sequence give the same as each in a sequence of its own, for which a device may have
// another kernel, which rounds elsewhere.
void ExpectDocumentsAsIfAlone(Device& device, DType dtype, int64_t heads, int64_t kv_heads, int64_t head_size) {
  constexpr int kRoundings = 2;
  constexpr int64_t kLengths[] = {3, 70, 1, 56};  // longer than a tile of queries, and shorter
  const AttentionShape packed{2, 130, heads, head_size, kv_heads};
  const auto qkv = Values(Elements(packed), 21, dtype), dout = Values(Tokens(packed) * Width(packed), 22, dtype);
  std::vector<int32_t> starts(Tokens(packed));
  for (int64_t b = 0; b < packed.batch; ++b) {
    int64_t begin = 0;
    for (const int64_t length : kLengths) {
      for (int64_t t = begin; t < begin + length; ++t) starts[b * packed.time + t] = static_cast<int32_t>(begin);
      begin += length;
    }
  }
  const ForwardResult all = Forward(device, packed, dtype, qkv, starts);
  const auto gradient = Backward(device, packed, dtype, qkv, dout, starts);
  const auto part = [](const std::vector<float>& from, int64_t first, int64_t rows, int64_t columns) {
    return std::vector<float>(from.begin() + first * columns, from.begin() + (first + rows) * columns);
  };
  for (int64_t b = 0; b < packed.batch; ++b) {
    int64_t first = b * packed.time;
    for (const int64_t length : kLengths) {
      const AttentionShape alone{1, length, heads, head_size, kv_heads};
      const auto its_qkv = part(qkv, first, length, packed.columns());
      const auto its_dout = part(dout, first, length, Width(packed));
      const auto out = Forward(device, alone, dtype, its_qkv).out;
      ExpectClose(part(all.out, first, length, Width(packed)), {out.begin(), out.end()}, dtype, kRoundings);
      const auto its = Backward(device, alone, dtype, its_qkv, its_dout);
      ExpectClose(part(gradient, first, length, packed.columns()), {its.begin(), its.end()}, dtype, kRoundings);
      first += length;
    }
  }
}

TEST_P(AttentionTest, DocumentsDoNotSeeOneAnother) {
  // Some devices compute heads of 16s in another way.
  for (const int64_t head_size : {10, 48}) ExpectDocumentsAsIfAlone(device(), dtype(), 3, 3, head_size);
}

TEST_P(AttentionTest, GradientMatchesFiniteDifferences) {
  if (dtype() != DType::kF32) GTEST_SKIP() << "differences are taken in fp32";
  for (const AttentionShape& s : {AttentionShape{2, 5, 3, 4}, {1, 67, 1, 2}}) {
    const auto qkv = Random(Tokens(s) * 3 * Width(s), 3), dout = Random(Tokens(s) * Width(s), 4);
    const size_t stride = qkv.size() < 400 ? 1 : 5;  // hits queries, keys and values all along the sequence
    ExpectGradient([&](const auto& at) { return Dot(Forward(device(), s, dtype(), at).out, dout); }, qkv,
                   Backward(device(), s, dtype(), qkv, dout), stride);
  }
}

TEST_P(AttentionTest, BackwardAgreesWithFloat) {
  // An odd head, and one that a device may have a fused kernel for.
  for (const AttentionShape& s : {AttentionShape{2, 150, 3, 10}, {2, 130, 2, 64}, {1, 97, 1, 48}, {1, 1, 2, 16}}) {
    const auto qkv = Values(Tokens(s) * 3 * Width(s), 5, DType::kBF16);
    const auto dout = Values(Tokens(s) * Width(s), 6, DType::kBF16);
    const auto want = Backward(device(), s, DType::kF32, qkv, dout);
    ExpectClose(Backward(device(), s, dtype(), qkv, dout), {want.begin(), want.end()}, dtype());
  }
}

TEST_P(AttentionTest, NaNReachesTheRowsThatSeeIt) {
  const AttentionShape s{1, 4, 1, 8};
  auto qkv = Random(Tokens(s) * 3 * Width(s), 7);
  qkv[2 * 3 * 8 + 8] = std::nanf("");  // the key of token 2
  const auto out = Forward(device(), s, dtype(), qkv).out;
  EXPECT_FALSE(std::isnan(out[1 * 8]));
  EXPECT_TRUE(std::isnan(out[2 * 8]));
  EXPECT_TRUE(std::isnan(out[3 * 8]));
}

TEST_P(AttentionTest, LargeScoresDoNotOverflow) {
  const AttentionShape s{1, 70, 1, 16};
  auto qkv = Random(Tokens(s) * 3 * Width(s), 8);
  for (float& value : qkv) value *= 16;  // scores of some hundreds, whose exponentials fp32 cannot hold
  const Reference want = ReferenceForward(s, qkv);
  ASSERT_GT(*std::max_element(want.logsumexp.begin(), want.logsumexp.end()), 100);
  const ForwardResult got = Forward(device(), s, dtype(), qkv);
  ExpectClose(got.logsumexp, want.logsumexp, DType::kF32);
  for (const float value : got.out) ASSERT_LE(std::abs(value), 16);  // a mean of values, and not NaN
}

class GroupedAttentionTest : public DeviceTest {};

TEST_P(GroupedAttentionTest, ForwardMatchesDouble) {
  for (const AttentionShape& s : {AttentionShape{2, 9, 6, 10, 2}, {1, 130, 4, 16, 1}, {1, 70, 9, 8, 3}}) {
    const auto qkv = Random(Elements(s), 1);
    const Reference want = ReferenceForward(s, qkv);
    const ForwardResult got = Forward(device(), s, dtype(), qkv);
    ExpectClose(got.out, want.out, dtype());
    ExpectClose(got.logsumexp, want.logsumexp, DType::kF32);
  }
}

TEST_P(GroupedAttentionTest, GradientMatchesFiniteDifferences) {
  if (dtype() != DType::kF32) GTEST_SKIP() << "differences are taken in fp32";
  for (const AttentionShape& s : {AttentionShape{2, 5, 6, 4, 2}, {1, 67, 2, 2, 1}}) {
    const auto qkv = Random(Elements(s), 3), dout = Random(Tokens(s) * Width(s), 4);
    ExpectGradient([&](const auto& at) { return Dot(Forward(device(), s, dtype(), at).out, dout); }, qkv,
                   Backward(device(), s, dtype(), qkv, dout), qkv.size() < 400 ? 1 : 5);
  }
}

TEST_P(GroupedAttentionTest, BackwardAgreesWithFloat) {
  for (const AttentionShape& s : {AttentionShape{1, 70, 4, 10, 2}, {2, 40, 4, 64, 2}, {2, 33, 4, 8, 1}}) {
    const auto qkv = Values(Elements(s), 5, DType::kBF16), dout = Values(Tokens(s) * Width(s), 6, DType::kBF16);
    const auto want = Backward(device(), s, DType::kF32, qkv, dout);
    // Where each head has its own gradient of keys and values, each is rounded before they are added.
    ExpectClose(Backward(device(), s, dtype(), qkv, dout), {want.begin(), want.end()}, dtype(), /*roundings=*/2);
  }
}

// Sharing keys and values gives the same as a copy of them for each head.
TEST_P(GroupedAttentionTest, IsAttentionWithSharedKeysAndValues) {
  const AttentionShape s{1, 20, 4, 8, 2}, whole{1, 20, 4, 8};
  const auto qkv = Random(Elements(s), 5);
  std::vector<float> copied(Elements(whole));
  for (int64_t t = 0; t < s.time; ++t) {
    for (int64_t section = 0; section < 12; ++section) {
      const int64_t from = section < 4 ? section : section < 8 ? 4 + (section - 4) / 2 : 6 + (section - 8) / 2;
      for (int64_t i = 0; i < 8; ++i) copied[(t * 12 + section) * 8 + i] = qkv[(t * 8 + from) * 8 + i];
    }
  }
  EXPECT_EQ(Forward(device(), s, dtype(), qkv).out, Forward(device(), whole, dtype(), copied).out);
}

TEST_P(GroupedAttentionTest, DocumentsDoNotSeeOneAnother) { ExpectDocumentsAsIfAlone(device(), dtype(), 4, 2, 16); }

ZF_CONFORMANCE(AttentionTest);
ZF_CONFORMANCE(GroupedAttentionTest);

}  // namespace
}  // namespace zerofleet::device
