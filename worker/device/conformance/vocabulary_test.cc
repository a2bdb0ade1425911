// The ops on parts of a vocabulary, put together, compared with the ops on the whole one, on every device.
#include "worker/device/vocabulary_ops.h"

#include <algorithm>
#include <cmath>

#include "worker/device/conformance/device_fixture.h"

namespace zerofleet::device {
namespace {

class VocabularyTest : public DeviceTest {
 protected:
  static constexpr int64_t kTokens = 15, kWidth = 20, kVocab = 53, kPart = 18;  // the third part has 17 rows

  static VocabularyPart PartOf(int index) { return {index * kPart, std::min<int64_t>(kPart, kVocab - index * kPart)}; }
  static constexpr int kParts = 3;

  std::vector<float> RowsOf(const std::vector<float>& matrix, int index) const {
    const VocabularyPart part = PartOf(index);
    return {matrix.begin() + part.first * kWidth, matrix.begin() + (part.first + part.rows) * kWidth};
  }
  std::vector<int32_t> Ids(int step) const {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < kTokens; ++i) ids.push_back(static_cast<int32_t>((i * step + 5) % kVocab));
    return ids;
  }
  std::vector<int32_t> Targets() const {
    std::vector<int32_t> targets = Ids(31);
    for (const int64_t row : masked_) targets[row] = -1;
    return targets;
  }
  std::vector<int64_t> masked_;
  LossTerms terms_;

  void ExpectPartsAreTheWhole();

  struct Loss {
    std::vector<double> sums;  // by part
    std::vector<double> dx;    // summed over the parts
    std::vector<float> dw;     // the parts' one after another
  };

  Loss RunParts(const std::vector<float>& x, const std::vector<float>& w, float scale, bool backward) {
    const DeviceTensor targets = PutInts(Targets()), device_x = Put(x), device_scale = PutFloat({scale});
    const DeviceTensor softmax(device(), kParts * kTokens * int64_t{sizeof(SoftmaxPart)});
    std::vector<DeviceTensor> weights, scratch;
    for (int index = 0; index < kParts; ++index) {
      weights.push_back(Put(RowsOf(w, index)));
      scratch.emplace_back(device(), ops().vocabulary().PartLogitsScratchBytes(kTokens, kPart, dtype()));
      ops().vocabulary().PartLogits(stream(), {.m = kTokens,
                                               .c = kWidth,
                                               .part = PartOf(index),
                                               .x = device_x.tensor(),
                                               .w = weights[index].tensor(),
                                               .targets = targets.as<int32_t>(),
                                               .logits = scratch[index].as(),
                                               .softmax = softmax.as<SoftmaxPart>() + index * kTokens,
                                               .vocab = kVocab,
                                               .label_smoothing = terms_.label_smoothing});
    }
    Loss loss;
    loss.dx.resize(kTokens * kWidth);
    for (int index = 0; index < kParts; ++index) {
      const DeviceTensor sum(device(), int64_t{sizeof(double)}), dx = Room(kTokens * kWidth);
      const double before = 2.5;
      device().Copy(stream(), sum.as<void>(), &before, sizeof before);
      const DeviceTensor dw = PutFloat(std::vector<float>(PartOf(index).rows * kWidth, 0.5f));
      ops().vocabulary().PartCrossEntropy(stream(), {.m = kTokens,
                                                     .c = kWidth,
                                                     .part = PartOf(index),
                                                     .index = index,
                                                     .parts = kParts,
                                                     .softmax = softmax.as<SoftmaxPart>(),
                                                     .x = device_x.tensor(),
                                                     .w = weights[index].tensor(),
                                                     .targets = targets.as<int32_t>(),
                                                     .gradient_scale = device_scale.as(),
                                                     .loss_sum = sum.as<double>(),
                                                     .logits = scratch[index].as(),
                                                     .scratch = scratch[index].as<void>(),
                                                     .dx = backward ? dx.tensor() : Tensor{},
                                                     .dw = dw.as(),
                                                     .vocab = kVocab,
                                                     .terms = terms_});
      double value = 0;
      device().Copy(stream(), &value, sum.as<void>(), sizeof value);
      const std::vector<float> mine = Get(dx), mine_dw = Get(dw);
      loss.sums.push_back(value - before);
      for (size_t i = 0; i < mine.size(); ++i) loss.dx[i] += mine[i];
      loss.dw.insert(loss.dw.end(), mine_dw.begin(), mine_dw.end());
    }
    return loss;
  }
};

TEST_P(VocabularyTest, PartsOfTheLossAreTheLossOfTheWhole) { ExpectPartsAreTheWhole(); }

TEST_P(VocabularyTest, WhatDoesNotCountDoesSoInNoPart) {
  masked_ = {0, 7, 14};
  ExpectPartsAreTheWhole();
}

TEST_P(VocabularyTest, TheDenominatorIsThatOfTheWhole) {
  masked_ = {3};
  terms_.z_loss = 0.05f;
  ExpectPartsAreTheWhole();
}

TEST_P(VocabularyTest, SmoothingIsOverTheWholeVocabulary) {
  masked_ = {3};
  terms_ = {.label_smoothing = 0.3f, .z_loss = 0.05f};
  ExpectPartsAreTheWhole();
}

void VocabularyTest::ExpectPartsAreTheWhole() {
  const auto x = Random(kTokens * kWidth, 1), w = Random(kVocab * kWidth, 2);
  const Loss parts = RunParts(x, w, 0.25f, true);
  const DeviceTensor targets = PutInts(Targets()), device_x = Put(x), device_w = Put(w), dx = Room(kTokens * kWidth);
  const DeviceTensor dw = PutFloat(std::vector<float>(kVocab * kWidth, 0.5f)), scale = PutFloat({0.25f});
  const DeviceTensor sum(device(), int64_t{sizeof(double)});
  const DeviceTensor scratch(device(), ops().CrossEntropyScratchBytes(kTokens, kWidth, kVocab, dtype()));
  ops().CrossEntropy(stream(), {.m = kTokens,
                                .c = kWidth,
                                .vocab = kVocab,
                                .x = device_x.tensor(),
                                .w = device_w.tensor(),
                                .targets = targets.as<int32_t>(),
                                .gradient_scale = scale.as(),
                                .loss_sum = sum.as<double>(),
                                .dx = dx.tensor(),
                                .dw = dw.as(),
                                .scratch = scratch.as<void>(),
                                .terms = terms_});
  double whole = 0;
  device().Copy(stream(), &whole, sum.as<void>(), sizeof whole);
  const std::vector<float> whole_dx = Get(dx), whole_dw = Get(dw);
  // A part's logits are fp32 on every device; a whole vocabulary's may have the compute type.
  EXPECT_NEAR(parts.sums[0], whole, (dtype() == DType::kF32 ? 1e-6 : 1e-4) * whole);
  EXPECT_EQ(parts.sums, std::vector<double>(kParts, parts.sums[0])) << "every part has the same bits";
  constexpr int kRoundings = 4;
  ExpectClose(whole_dx, parts.dx, dtype(), kRoundings);
  ExpectClose(parts.dw, {whole_dw.begin(), whole_dw.end()}, dtype(), kRoundings);
  EXPECT_EQ(RunParts(x, w, 0.25f, false).sums, parts.sums) << "the loss alone";
}

TEST_P(VocabularyTest, LargeLogitsOfAnotherPartDoNotOverflow) {
  for (const int32_t token : {0, static_cast<int32_t>(kVocab - 1)}) {
    std::vector<float> w(kVocab * kWidth);
    std::fill_n(w.begin() + token * kWidth, kWidth, 100.0f);
    const Loss loss = RunParts(std::vector<float>(kTokens * kWidth, 1.0f), w, 1.0f, true);
    double targets_elsewhere = 0;
    for (int32_t id : Ids(31)) targets_elsewhere += id != token;
    EXPECT_EQ(loss.sums, std::vector<double>(kParts, 100.0 * kWidth * targets_elsewhere)) << "token " << token;
    for (float value : loss.dw) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST_P(VocabularyTest, NaNReachesTheLoss) {
  auto x = Random(kTokens * kWidth, 3);
  x[9] = std::nanf("");
  const Loss loss = RunParts(x, Random(kVocab * kWidth, 4), 1.0f, true);
  for (double sum : loss.sums) EXPECT_TRUE(std::isnan(sum));
}

TEST_P(VocabularyTest, PartsOfTheEmbeddingAddUpToIt) {
  constexpr int64_t kBatch = 3, kTime = 5;
  const auto wte = Random(kVocab * kWidth, 5), wpe = Random(kTime * kWidth, 6), dx = Random(kTokens * kWidth, 7);
  const DeviceTensor tokens = PutInts(Ids(7)), position = Put(wpe), gradient = Put(dx), whole = Room(kTokens * kWidth);
  const DeviceTensor table = Put(wte), dwte = PutFloat(std::vector<float>(kVocab * kWidth));
  const DeviceTensor dwpe = PutFloat(std::vector<float>(kTime * kWidth));
  const EmbeddingForwardArguments forward{.batch = kBatch,
                                          .time = kTime,
                                          .c = kWidth,
                                          .tokens = tokens.as<int32_t>(),
                                          .wte = table.tensor(),
                                          .wpe = position.tensor(),
                                          .x = whole.tensor()};
  const EmbeddingBackwardArguments backward{.batch = kBatch,
                                            .time = kTime,
                                            .c = kWidth,
                                            .tokens = tokens.as<int32_t>(),
                                            .dx = gradient.tensor(),
                                            .dwte = dwte.as(),
                                            .dwpe = dwpe.as()};
  ops().EmbeddingForward(stream(), forward);
  ops().EmbeddingBackward(stream(), backward);
  std::vector<double> sum(kTokens * kWidth);
  std::vector<float> parts_dwte;
  for (int index = 0; index < kParts; ++index) {
    const DeviceTensor rows = Put(RowsOf(wte, index)), x = Put(std::vector<float>(kTokens * kWidth, 9.0f));
    const DeviceTensor part_dwte = PutFloat(std::vector<float>(PartOf(index).rows * kWidth));
    const DeviceTensor part_dwpe = PutFloat(std::vector<float>(kTime * kWidth));
    EmbeddingForwardArguments mine = forward;
    mine.wte = rows.tensor();
    mine.wpe = index == 0 ? position.tensor() : Tensor{};
    mine.x = x.tensor();
    ops().vocabulary().PartEmbeddingForward(stream(), PartOf(index), mine);
    EmbeddingBackwardArguments back = backward;
    back.dwte = part_dwte.as();
    back.dwpe = part_dwpe.as();
    ops().vocabulary().PartEmbeddingBackward(stream(), PartOf(index), back);
    const std::vector<float> values = Get(x), got = Get(part_dwte);
    for (size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
    parts_dwte.insert(parts_dwte.end(), got.begin(), got.end());
    EXPECT_EQ(Get(part_dwpe), Get(dwpe));
  }
  ExpectClose(Get(whole), sum, dtype());
  EXPECT_EQ(parts_dwte, Get(dwte));
}

ZF_CONFORMANCE(VocabularyTest);

}  // namespace
}  // namespace zerofleet::device
