// Embeddings on every device.
#include "worker/device/conformance/device_fixture.h"

namespace zerofleet::device {
namespace {

constexpr int64_t kBatch = 3, kTime = 5, kVocab = 7, kWidth = 133;

class EmbeddingTest : public DeviceTest {
 protected:
  // Tokens repeat, since a token's gradients must add up.
  const std::vector<int32_t> tokens_ = {6, 0, 0, 3, 2, 2, 2, 5, 1, 0, 6, 6, 0, 3, 0};

  DeviceTensor Tokens() {
    DeviceTensor tensor(device(), static_cast<int64_t>(tokens_.size() * sizeof(int32_t)));
    device().Copy(stream(), tensor.as<void>(), tokens_.data(), tokens_.size() * sizeof(int32_t));
    return tensor;
  }
};

TEST_P(EmbeddingTest, ForwardAddsTokenAndPosition) {
  const auto wte = Random(kVocab * kWidth, 1), wpe = Random(kTime * kWidth, 2);
  const DeviceTensor tokens = Tokens(), te = Put(wte), pe = Put(wpe), x = Room(kBatch * kTime * kWidth);
  ops().EmbeddingForward(stream(), {.batch = kBatch,
                                    .time = kTime,
                                    .c = kWidth,
                                    .tokens = tokens.as<int32_t>(),
                                    .wte = te.tensor(),
                                    .wpe = pe.tensor(),
                                    .x = x.tensor()});
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
  const DeviceTensor tokens = Tokens(), gradient = Put(dx), dwte = PutFloat(wte_before);
  const DeviceTensor dwpe = PutFloat(std::vector<float>(kTime * kWidth));
  ops().EmbeddingBackward(stream(), {.batch = kBatch,
                                     .time = kTime,
                                     .c = kWidth,
                                     .tokens = tokens.as<int32_t>(),
                                     .dx = gradient.tensor(),
                                     .dwte = dwte.as(),
                                     .dwpe = dwpe.as()});
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

// As Llama's, whose positions are turned into queries and keys.
TEST_P(EmbeddingTest, HasNoPositionsWhereThereAreNone) {
  const auto wte = Random(kVocab * kWidth, 1), dx = Random(kBatch * kTime * kWidth, 3);
  const DeviceTensor tokens = Tokens(), te = Put(wte), x = Room(kBatch * kTime * kWidth), gradient = Put(dx);
  const DeviceTensor dwte = PutFloat(std::vector<float>(kVocab * kWidth));
  ops().EmbeddingForward(stream(), {.batch = kBatch,
                                    .time = kTime,
                                    .c = kWidth,
                                    .tokens = tokens.as<int32_t>(),
                                    .wte = te.tensor(),
                                    .wpe = {},
                                    .x = x.tensor()});
  ops().EmbeddingBackward(stream(), {.batch = kBatch,
                                     .time = kTime,
                                     .c = kWidth,
                                     .tokens = tokens.as<int32_t>(),
                                     .dx = gradient.tensor(),
                                     .dwte = dwte.as(),
                                     .dwpe = nullptr});
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
