// Embeddings on every device.
#include "worker/device/conformance/device_fixture.h"

namespace zerofleet::device {
namespace {

constexpr int64_t kBatch = 3, kTime = 5, kVocab = 7, kWidth = 133;

class EmbeddingTest : public DeviceTest {
 protected:
  // Tokens repeat, since a token's gradients must add up.
  const std::vector<int32_t> tokens_ = {6, 0, 0, 3, 2, 2, 2, 5, 1, 0, 6, 6, 0, 3, 0};

  // Documents of 5, of 3 and 2, and of 1, 1 and 3.
  const std::vector<int32_t> starts_ = {0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 0, 1, 2, 2, 2};

  void Forward(Tensor wte, Tensor wpe, const DeviceTensor& x, bool packed = false) {
    const DeviceTensor tokens = PutInts(tokens_), starts = PutInts(starts_);
    ops().EmbeddingForward(stream(), {.batch = kBatch,
                                      .time = kTime,
                                      .c = kWidth,
                                      .tokens = tokens.as<int32_t>(),
                                      .wte = wte,
                                      .wpe = wpe,
                                      .x = x.tensor(),
                                      .starts = packed ? starts.as<int32_t>() : nullptr});
    EXPECT_TRUE(stream().Synchronize().ok());
  }
  void Backward(const DeviceTensor& dx, float* dwte, float* dwpe, bool packed = false) {
    const DeviceTensor tokens = PutInts(tokens_), starts = PutInts(starts_);
    ops().EmbeddingBackward(stream(), {.batch = kBatch,
                                       .time = kTime,
                                       .c = kWidth,
                                       .tokens = tokens.as<int32_t>(),
                                       .dx = dx.tensor(),
                                       .dwte = dwte,
                                       .dwpe = dwpe,
                                       .starts = packed ? starts.as<int32_t>() : nullptr});
    EXPECT_TRUE(stream().Synchronize().ok());
  }
};

TEST_P(EmbeddingTest, ForwardAddsTokenAndPosition) {
  const auto wte = Random(kVocab * kWidth, 1), wpe = Random(kTime * kWidth, 2);
  const DeviceTensor te = Put(wte), pe = Put(wpe), x = Room(kBatch * kTime * kWidth);
  Forward(te.tensor(), pe.tensor(), x);
  std::vector<double> want;
  for (int64_t row = 0; row < kBatch * kTime; ++row) {
    for (int64_t i = 0; i < kWidth; ++i) {
      want.push_back(static_cast<double>(wte[tokens_[row] * kWidth + i]) + wpe[row % kTime * kWidth + i]);
    }
  }
  ExpectClose(Get(x), want, dtype());
}

TEST_P(EmbeddingTest, BackwardIsTheTransposeOfTheForward) {
  const auto dx = Random(kBatch * kTime * kWidth, 3), wte_before = Values(kVocab * kWidth, 4);
  const DeviceTensor gradient = Put(dx), dwte = PutFloat(wte_before);
  const DeviceTensor dwpe = PutFloat(std::vector<float>(kTime * kWidth));
  Backward(gradient, dwte.as(), dwpe.as());
  std::vector<double> want_token(wte_before.begin(), wte_before.end()), want_position(kTime * kWidth);
  for (int64_t row = 0; row < kBatch * kTime; ++row) {
    for (int64_t i = 0; i < kWidth; ++i) {
      want_token[tokens_[row] * kWidth + i] += dx[row * kWidth + i];
      want_position[row % kTime * kWidth + i] += dx[row * kWidth + i];
    }
  }
  ExpectClose(Get(dwte), want_token, DType::kF32);
  ExpectClose(Get(dwpe), want_position, DType::kF32);
}

TEST_P(EmbeddingTest, PositionsStartAnewInEachDocument) {
  const auto wte = Random(kVocab * kWidth, 1), wpe = Random(kTime * kWidth, 2), dx = Random(kBatch * kTime * kWidth, 3);
  const DeviceTensor te = Put(wte), pe = Put(wpe), x = Room(kBatch * kTime * kWidth), gradient = Put(dx);
  const DeviceTensor dwte = PutFloat(std::vector<float>(kVocab * kWidth));
  const DeviceTensor dwpe = PutFloat(std::vector<float>(kTime * kWidth));
  Forward(te.tensor(), pe.tensor(), x, /*packed=*/true);
  Backward(gradient, dwte.as(), dwpe.as(), /*packed=*/true);
  std::vector<double> want, want_position(kTime * kWidth);
  for (int64_t row = 0; row < kBatch * kTime; ++row) {
    for (int64_t i = 0; i < kWidth; ++i) {
      const int64_t position = row % kTime - starts_[row];
      want.push_back(static_cast<double>(wte[tokens_[row] * kWidth + i]) + wpe[position * kWidth + i]);
      want_position[position * kWidth + i] += dx[row * kWidth + i];
    }
  }
  ExpectClose(Get(x), want, dtype());
  ExpectClose(Get(dwpe), want_position, DType::kF32);
}

// As Llama's, whose positions are turned into queries and keys.
TEST_P(EmbeddingTest, HasNoPositionsWhereThereAreNone) {
  const auto wte = Random(kVocab * kWidth, 1), dx = Random(kBatch * kTime * kWidth, 3);
  const DeviceTensor te = Put(wte), x = Room(kBatch * kTime * kWidth), gradient = Put(dx);
  const DeviceTensor dwte = PutFloat(std::vector<float>(kVocab * kWidth));
  Forward(te.tensor(), {}, x);
  Backward(gradient, dwte.as(), nullptr);
  std::vector<double> want, want_token(kVocab * kWidth);
  for (int64_t row = 0; row < kBatch * kTime; ++row) {
    for (int64_t i = 0; i < kWidth; ++i) {
      want.push_back(wte[tokens_[row] * kWidth + i]);
      want_token[tokens_[row] * kWidth + i] += dx[row * kWidth + i];
    }
  }
  ExpectClose(Get(x), want, dtype());
  ExpectClose(Get(dwte), want_token, DType::kF32);
}

ZF_CONFORMANCE(EmbeddingTest);

}  // namespace
}  // namespace zerofleet::device
