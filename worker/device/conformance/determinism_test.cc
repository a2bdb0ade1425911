// The same input gives the same bits with any number of threads, op by op.
#include <cstring>

#include "worker/device/conformance/device_fixture.h"
#include "worker/device/layer_norm_testing.h"

namespace zerofleet::device {
namespace {

// One device's run of every op whose work is shared among threads, on shapes of several uneven blocks.
class OpRun {
 public:
  OpRun(Device& device, DType dtype) : device_(device), dtype_(dtype), stream_(device.CreateStream().value()) {}

  // All results, one after the other.
  std::vector<float> Results() {
    Linear();
    Attention({3, 90, 3, 10});
    Attention({2, 130, 2, 64});  // a device may have a fused kernel for such heads
    Norm();
    Embedding();
    CrossEntropy();
    SumSquares();
    return results_;
  }

 private:
  DeviceTensor In(int64_t count, int salt) { return {device_, Values(count, salt), dtype_}; }
  DeviceTensor Out(int64_t count, DType dtype) { return {device_, std::vector<float>(count), dtype}; }
  void Keep(const DeviceTensor& tensor) {
    EXPECT_TRUE(stream_->Synchronize().ok());  // Read copies on a stream of its own
    const auto values = tensor.Read(device_);
    results_.insert(results_.end(), values.begin(), values.end());
  }

  void Linear() {
    constexpr int64_t m = 200, n = 390, k = 700;
    const DeviceTensor x = In(m * k, 1), w = In(n * k, 2), bias = In(n, 3), dy = In(m * n, 4);
    const DeviceTensor y = Out(m * n, dtype_), dx = Out(m * k, dtype_), dw = Out(n * k, DType::kF32);
    const DeviceTensor dbias = Out(n, DType::kF32);
    device_.ops().LinearForward(
        *stream_, {.m = m, .n = n, .k = k, .x = x.tensor(), .w = w.tensor(), .bias = bias.tensor(), .y = y.tensor()});
    device_.ops().LinearBackwardInput(*stream_,
                                      {.m = m, .n = n, .k = k, .dy = dy.tensor(), .w = w.tensor(), .dx = dx.tensor()});
    device_.ops().LinearBackwardWeight(
        *stream_, {.m = m, .n = n, .k = k, .dy = dy.tensor(), .x = x.tensor(), .dw = dw.as(), .dbias = dbias.as()});
    for (const DeviceTensor* kept : {&y, &dx, &dw, &dbias}) Keep(*kept);
  }

  void Attention(const AttentionShape& s) {
    const int64_t count = s.batch * s.time * s.heads * s.head_size;
    const DeviceTensor qkv = In(3 * count, 5), dout = In(count, 6), out = Out(count, dtype_);
    const DeviceTensor dqkv = Out(3 * count, dtype_), logsumexp = Out(s.batch * s.heads * s.time, DType::kF32);
    const DeviceTensor scratch(device_, device_.ops().AttentionScratchBytes(s));
    device_.ops().AttentionForward(*stream_, {.shape = s,
                                              .qkv = qkv.tensor(),
                                              .out = out.tensor(),
                                              .logsumexp = logsumexp.as(),
                                              .scratch = scratch.as<void>()});
    device_.ops().AttentionBackward(*stream_, {.shape = s,
                                               .qkv = qkv.tensor(),
                                               .out = out.tensor(),
                                               .logsumexp = logsumexp.as(),
                                               .dout = dout.tensor(),
                                               .dqkv = dqkv.tensor(),
                                               .scratch = scratch.as<void>()});
    for (const DeviceTensor* kept : {&out, &logsumexp, &dqkv}) Keep(*kept);
  }

  void Norm() {
    constexpr int64_t m = 333, c = 250;
    const DeviceTensor x = In(m * c, 7), gamma = In(c, 8), beta = In(c, 9), dy = In(m * c, 10);
    const DeviceTensor y = Out(m * c, dtype_), dx = Out(m * c, dtype_), mean = Out(m, DType::kF32);
    const DeviceTensor rstd = Out(m, DType::kF32), dgamma = Out(c, DType::kF32), dbeta = Out(c, DType::kF32);
    RunLayerNorm<DeviceTensor>(device_.ops(), *stream_, {m, c, x, gamma, beta, dy, y, mean, rstd, dx, dgamma, dbeta});
    for (const DeviceTensor* kept : {&y, &dx, &dgamma, &dbeta}) Keep(*kept);
  }

  void Embedding() {
    constexpr int64_t batch = 4, time = 50, c = 300, vocab = 10;
    DeviceTensor tokens(device_, batch * time * int64_t{sizeof(int32_t)});
    CopyTokens(tokens, batch * time, vocab);
    const DeviceTensor dx = In(batch * time * c, 11), dwte = Out(vocab * c, DType::kF32);
    const DeviceTensor dwpe = Out(time * c, DType::kF32);
    device_.ops().EmbeddingBackward(*stream_, {.batch = batch,
                                               .time = time,
                                               .c = c,
                                               .tokens = tokens.as<int32_t>(),
                                               .dx = dx.tensor(),
                                               .dwte = dwte.as(),
                                               .dwpe = dwpe.as()});
    Keep(dwte);
    Keep(dwpe);
  }

  void CrossEntropy() {
    constexpr int64_t m = 300, c = 24, vocab = 999;
    DeviceTensor targets(device_, m * int64_t{sizeof(int32_t)});
    CopyTokens(targets, m, vocab);
    const DeviceTensor x = In(m * c, 12), w = In(vocab * c, 13), dx = Out(m * c, dtype_);
    const DeviceTensor dw = Out(vocab * c, DType::kF32), loss = Out(2, DType::kF32);
    const DeviceTensor scratch(device_, device_.ops().CrossEntropyScratchBytes(m, c, vocab, dtype_));
    const DeviceTensor scale(device_, std::vector<float>{0.5f});
    device_.ops().CrossEntropy(*stream_, {.m = m,
                                          .c = c,
                                          .vocab = vocab,
                                          .x = x.tensor(),
                                          .w = w.tensor(),
                                          .targets = targets.as<int32_t>(),
                                          .gradient_scale = scale.as(),
                                          .loss_sum = loss.as<double>(),
                                          .dx = dx.tensor(),
                                          .dw = dw.as(),
                                          .scratch = scratch.as<void>()});
    for (const DeviceTensor* kept : {&dx, &dw, &loss}) Keep(*kept);
  }

  void SumSquares() {
    const DeviceTensor x = In(100001, 14), sum = Out(2, DType::kF32);
    device_.ops().SumSquares(*stream_, 100001, x.tensor(), sum.as<double>());
    Keep(sum);
  }

  void CopyTokens(const DeviceTensor& to, int64_t count, int64_t vocab) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(i * 37 % vocab));
    device_.Copy(*stream_, to.as<void>(), tokens.data(), count * int64_t{sizeof(int32_t)});
  }

  Device& device_;
  DType dtype_;
  std::unique_ptr<Stream> stream_;
  std::vector<float> results_;
};

class DeterminismTest : public DeviceTest {};

TEST_P(DeterminismTest, SameBitsWithAnyNumberOfThreads) {
  const auto one = Create(1), three = Create(3);
  const auto want = OpRun(*one, dtype()).Results();
  for (Device* device : {one.get(), three.get()}) {
    const auto got = OpRun(*device, dtype()).Results();
    ASSERT_EQ(got.size(), want.size());
    EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0);
  }
}

ZF_CONFORMANCE(DeterminismTest);

}  // namespace
}  // namespace zerofleet::device
