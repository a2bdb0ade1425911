// Bands of gradients, put together, have exactly the bits of the whole gradients.
#include "worker/device/band_ops.h"

#include <algorithm>

#include "worker/device/conformance/device_fixture.h"

namespace zerofleet::device {
namespace {

class BandsTest : public DeviceTest {
 protected:
  void ExpectTheRowsOfALookup(const std::vector<int32_t>& starts);
  // A weight's gradient in the compute type, whole and in bands.
  std::vector<float> Written(LinearBackwardWeightArguments whole) {
    const DeviceTensor written = Room(whole.n * whole.k);
    whole.dw = whole.dbias = nullptr;
    whole.written = written.tensor();
    ops().LinearBackwardWeight(stream(), whole);
    return Get(written);
  }
  std::vector<float> WrittenBands(LinearBackwardWeightArguments whole, int64_t step) {
    const DeviceTensor written = Room(whole.n * whole.k);
    whole.dw = whole.dbias = nullptr;
    for (int64_t first = 0; first < whole.n; first += step) {
      whole.written = written.tensor().Offset(first * whole.k);
      ops().bands().LinearBackwardWeightBand(stream(), whole, {first, std::min(step, whole.n - first)});
    }
    return Get(written);
  }
  static std::vector<int32_t> Ids(int64_t count, int64_t step, int64_t vocab) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>((i * step + 5) % vocab));
    return ids;
  }
};

TEST_P(BandsTest, AreTheRowsOfAWeightGradient) {
  for (const int64_t n : {40, 304, 530}) {
    constexpr int64_t kTokens = 37, kWidth = 30;
    const DeviceTensor dy = Put(Random(kTokens * n, 1)), x = Put(Random(kTokens * kWidth, 2));
    const DeviceTensor dw = PutFloat(std::vector<float>(n * kWidth)), dbias = PutFloat(std::vector<float>(n));
    LinearBackwardWeightArguments whole{
        .m = kTokens, .n = n, .k = kWidth, .dy = dy.tensor(), .x = x.tensor(), .dw = dw.as(), .dbias = dbias.as()};
    ops().LinearBackwardWeight(stream(), whole);
    const int64_t step = ops().bands().BandRows(n, dtype());
    const DeviceTensor bias = PutFloat(std::vector<float>(n));
    std::vector<float> bands;
    for (int64_t first = 0; first < n; first += step) {
      const int64_t count = std::min(step, n - first);
      const DeviceTensor band = PutFloat(std::vector<float>(count * kWidth));
      LinearBackwardWeightArguments part = whole;
      part.dw = band.as();
      part.dbias = bias.as() + first;
      ops().bands().LinearBackwardWeightBand(stream(), part, {first, count});
      const std::vector<float> values = Get(band);
      bands.insert(bands.end(), values.begin(), values.end());
    }
    EXPECT_EQ(bands, Get(dw)) << n << " rows, " << step << " at a time";
    EXPECT_EQ(WrittenBands(whole, step), Written(whole));
    EXPECT_EQ(Get(bias), Get(dbias));
  }
}

// A vocabulary of 700, so that the tiles of the logits and those of the gradient end at different places. A library may
// use other algorithms for few tokens, or for strides other than those of the whole logits.
class OutputBandsTest : public BandsTest {
 protected:
  void ExpectTheRowsOfTheWhole(int64_t tokens, int64_t width, int64_t vocab = 700);
};

void OutputBandsTest::ExpectTheRowsOfTheWhole(int64_t tokens, int64_t width, int64_t vocab) {
  const DeviceTensor x = Put(Random(tokens * width, 3)), w = Put(Random(vocab * width, 4));
  std::vector<int32_t> ids = Ids(tokens, 31, vocab);
  ids[3] = -1;  // does not count
  const DeviceTensor targets = PutInts(ids), scale = PutFloat({0.25f});
  const DeviceTensor dx = Room(tokens * width), dx_alone = Room(tokens * width);
  const DeviceTensor dw = PutFloat(std::vector<float>(vocab * width));
  const DeviceTensor sum(device(), int64_t{sizeof(double)}), kept(device(), tokens * int64_t{sizeof(LogitsGradient)});
  const DeviceTensor scratch(device(), ops().CrossEntropyScratchBytes(tokens, width, vocab, dtype()));
  CrossEntropyArguments loss{.m = tokens,
                             .c = width,
                             .vocab = vocab,
                             .x = x.tensor(),
                             .w = w.tensor(),
                             .targets = targets.as<int32_t>(),
                             .gradient_scale = scale.as(),
                             .loss_sum = sum.as<double>(),
                             .dx = dx.tensor(),
                             .dw = dw.as(),
                             .scratch = scratch.as<void>()};
  ops().CrossEntropy(stream(), loss);
  loss.dx = dx_alone.tensor();
  loss.dw = nullptr;
  loss.kept = kept.as<LogitsGradient>();
  ops().CrossEntropy(stream(), loss);
  EXPECT_EQ(Get(dx_alone), Get(dx));

  std::vector<float> bands;
  const int64_t step = ops().bands().BandRows(vocab, dtype());
  for (int64_t first = 0; first < vocab; first += step) {
    const RowBand rows{first, std::min(step, vocab - first)};
    const DeviceTensor band = PutFloat(std::vector<float>(rows.count * width));
    ops().bands().CrossEntropyBand(stream(), {.m = tokens,
                                              .c = width,
                                              .part = {0, vocab},
                                              .in_parts = false,
                                              .band = rows,
                                              .rows = LogitsRows(tokens, vocab),
                                              .x = x.tensor(),
                                              .w = w.tensor(),
                                              .targets = targets.as<int32_t>(),
                                              .gradient_scale = scale.as(),
                                              .kept = kept.as<LogitsGradient>(),
                                              .dw = band.as(),
                                              .scratch = scratch.as<void>()});
    const std::vector<float> values = Get(band);
    bands.insert(bands.end(), values.begin(), values.end());
  }
  EXPECT_EQ(bands, Get(dw)) << tokens << " tokens, " << step << " rows at a time";
}

TEST_P(OutputBandsTest, AreTheRowsOfTheWhole) {
  for (const int64_t tokens : {10, 40}) {
    for (const int64_t width : {24, 48}) ExpectTheRowsOfTheWhole(tokens, width);
  }
}

// A GPU holds the logits of all these tokens at once.
TEST_P(OutputBandsTest, AreTheRowsOfSeveralChunks) {
  if (device().kind() != "cpu") GTEST_SKIP() << "more than one chunk of tokens takes too long";
  ExpectTheRowsOfTheWhole(520, 16, 33000);
}

TEST_P(BandsTest, AreTheRowsOfALookupsGradient) { ExpectTheRowsOfALookup({}); }

// Positions that start at 0 with each document.
TEST_P(BandsTest, AreTheRowsOfAPackedLookupsGradient) {
  ExpectTheRowsOfALookup({0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 3, 4});
}

void BandsTest::ExpectTheRowsOfALookup(const std::vector<int32_t>& starts) {
  constexpr int64_t kBatch = 3, kTime = 5, kWidth = 20, kVocab = 53;
  const DeviceTensor tokens = PutInts(Ids(kBatch * kTime, 7, kVocab)), dx = Put(Random(kBatch * kTime * kWidth, 7));
  const DeviceTensor dwte = PutFloat(std::vector<float>(kVocab * kWidth));
  const DeviceTensor dwpe = PutFloat(std::vector<float>(kTime * kWidth)), documents = PutInts(starts);
  EmbeddingBackwardArguments whole{.batch = kBatch,
                                   .time = kTime,
                                   .c = kWidth,
                                   .tokens = tokens.as<int32_t>(),
                                   .dx = dx.tensor(),
                                   .dwte = dwte.as(),
                                   .dwpe = dwpe.as(),
                                   .starts = documents.as<int32_t>()};
  ops().EmbeddingBackward(stream(), whole);
  const std::vector<float> of_tokens = Get(dwte), of_positions = Get(dwpe);
  const DeviceTensor token_band = PutFloat(std::vector<float>(20 * kWidth));
  const DeviceTensor position_band = PutFloat(std::vector<float>(2 * kWidth));
  EmbeddingBackwardArguments band = whole;
  band.dwte = token_band.as();
  band.dwpe = position_band.as();
  ops().bands().EmbeddingBackwardBand(stream(), band, {30, 20});
  ops().bands().PositionsBackwardBand(stream(), band, {3, 2});
  EXPECT_EQ(Get(token_band), std::vector<float>(of_tokens.begin() + 30 * kWidth, of_tokens.begin() + 50 * kWidth));
  EXPECT_EQ(Get(position_band),
            std::vector<float>(of_positions.begin() + 3 * kWidth, of_positions.begin() + 5 * kWidth));
}

ZF_CONFORMANCE(BandsTest);
ZF_CONFORMANCE(OutputBandsTest);

}  // namespace
}  // namespace zerofleet::device
