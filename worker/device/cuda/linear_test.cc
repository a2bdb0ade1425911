// The linear ops and the output head, with cuBLASLt running the epilogues and refusing them, on odd and aligned shapes,
// in all three types; and what only this backend has: its own kernels for epilogues, and chunks of logits.
#include <cmath>

#include "gtest/gtest.h"
#include "worker/device/cuda/cross_entropy.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/device/cuda/emulation/cublaslt.h"
#include "worker/device/cuda/linear_kernels.h"
#include "worker/device/cuda/test_tensor.h"

namespace zerofleet::device::cuda {
namespace {

struct Shape {
  int64_t m, n, k;
};
// One element; odd sizes; rows of whole vectors; more rows than a slice of a column sum.
constexpr Shape kShapes[] = {{1, 1, 1}, {7, 13, 5}, {33, 64, 24}, {9, 40, 16}, {200, 24, 8}, {150, 9, 3}};

class CudaLinearTest : public ::testing::TestWithParam<std::tuple<DType, bool>> {
 protected:
  void SetUp() override {
    emulation::cublaslt() = {};
    emulation::cublaslt().fused_epilogues = fused();
    stream_ = CudaStream::Create(0).value();
    ops_ = CudaOps::Create().value();
  }
  void TearDown() override {
    EXPECT_EQ(stream_->Synchronize(), absl::OkStatus());
    emulation::cublaslt() = {};
  }
  DType dtype() const { return std::get<0>(GetParam()); }
  bool fused() const { return std::get<1>(GetParam()); }
  TestTensor Random(int64_t rows, int64_t columns, uint32_t salt) const { return {rows, columns, dtype(), salt}; }

  // Epilogues round to the type once; the kernels that replace them round twice.
  void ExpectClose(const TestTensor& got, int64_t i, double want) const {
    ASSERT_NEAR(got.Get(i), want, 2 * Tolerance(got.dtype(), want)) << i;
  }

  std::unique_ptr<CudaStream> stream_;
  std::unique_ptr<CudaOps> ops_;
};

double Product(const TestTensor& x, const TestTensor& w, int64_t row, int64_t column, int64_t k) {
  double sum = 0;
  for (int64_t i = 0; i < k; ++i) sum += static_cast<double>(x.At(row, i)) * w.At(column, i);
  return sum;
}

TEST_P(CudaLinearTest, ForwardWithBiasAndResidual) {
  for (const auto& [m, n, k] : kShapes) {
    for (const bool with_bias : {false, true}) {
      for (const bool with_residual : {false, true}) {
        const TestTensor x = Random(m, k, 1), w = Random(n, k, 2), bias = Random(1, n, 3), residual = Random(m, n, 4);
        const TestTensor apart = Random(m, n, 5), in_place = Random(m, n, 4);
        const auto forward = [&, m = m, n = n, k = k](const TestTensor& added, const TestTensor& y) {
          ops_->LinearForward(*stream_, {.m = m,
                                         .n = n,
                                         .k = k,
                                         .x = x.tensor(),
                                         .w = w.tensor(),
                                         .bias = with_bias ? bias.tensor() : Tensor{},
                                         .residual = with_residual ? added.tensor() : Tensor{},
                                         .y = y.tensor()});
        };
        forward(residual, apart);
        forward(in_place, in_place);
        for (int64_t i = 0; i < m * n; ++i) {
          const double want = Product(x, w, i / n, i % n, k) + (with_bias ? bias.Get(i % n) : 0) +
                              (with_residual ? residual.Get(i) : 0);
          ExpectClose(apart, i, want);
          ASSERT_EQ(in_place.Get(i), apart.Get(i));
        }
      }
    }
  }
}

TEST_P(CudaLinearTest, GeluForward) {
  for (const auto& [m, n, k] : kShapes) {
    const TestTensor x = Random(m, k, 1), w = Random(n, k, 2), bias = Random(1, n, 3);
    const TestTensor before = Random(m, n, 4), y = Random(m, n, 5);
    ops_->LinearGeluForward(*stream_, {.m = m,
                                       .n = n,
                                       .k = k,
                                       .x = x.tensor(),
                                       .w = w.tensor(),
                                       .bias = bias.tensor(),
                                       .before = before.tensor(),
                                       .y = y.tensor()});
    for (int64_t i = 0; i < m * n; ++i) {
      const double want = Product(x, w, i / n, i % n, k) + bias.Get(i % n);
      ExpectClose(before, i, want);
      ExpectClose(y, i, ReferenceGelu(want));
    }
  }
}

TEST_P(CudaLinearTest, BackwardInput) {
  for (const auto& [m, n, k] : kShapes) {
    const TestTensor dy = Random(m, n, 1), w = Random(n, k, 2), before = Random(m, k, 3);
    const TestTensor dx = Random(m, k, 4), dbefore = Random(m, k, 5);
    ops_->LinearBackwardInput(*stream_,
                              {.m = m, .n = n, .k = k, .dy = dy.tensor(), .w = w.tensor(), .dx = dx.tensor()});
    ops_->LinearBackwardInputGelu(*stream_, {.m = m,
                                             .n = n,
                                             .k = k,
                                             .dy = dy.tensor(),
                                             .w = w.tensor(),
                                             .before = before.tensor(),
                                             .dbefore = dbefore.tensor()});
    for (int64_t i = 0; i < m * k; ++i) {
      double want = 0;
      for (int64_t j = 0; j < n; ++j) want += static_cast<double>(dy.At(i / k, j)) * w.At(j, i % k);
      ExpectClose(dx, i, want);
      ExpectClose(dbefore, i, want * ReferenceGeluSlope(before.Get(i)));
    }
  }
}

TEST_P(CudaLinearTest, BackwardWeightAdds) {
  for (const auto& [m, n, k] : kShapes) {
    const TestTensor dy = Random(m, n, 1), x = Random(m, k, 2);
    const TestTensor dw(n, k, DType::kF32, 3), dbias(1, n, DType::kF32, 4), alone(n, k, DType::kF32, 3);
    const TestTensor dw_before(n, k, DType::kF32, 3), dbias_before(1, n, DType::kF32, 4);
    ops_->LinearBackwardWeight(
        *stream_, {.m = m, .n = n, .k = k, .dy = dy.tensor(), .x = x.tensor(), .dw = dw.as(), .dbias = dbias.as()});
    ops_->LinearBackwardWeight(*stream_,
                               {.m = m, .n = n, .k = k, .dy = dy.tensor(), .x = x.tensor(), .dw = alone.as()});
    for (int64_t row = 0; row < n; ++row) {
      double sum = dbias_before.Get(row);
      for (int64_t i = 0; i < m; ++i) sum += dy.At(i, row);
      ExpectClose(dbias, row, sum);
      for (int64_t column = 0; column < k; ++column) {
        double want = dw_before.At(row, column);
        for (int64_t i = 0; i < m; ++i) want += static_cast<double>(dy.At(i, row)) * x.At(i, column);
        ExpectClose(dw, row * k + column, want);
        ASSERT_EQ(alone.At(row, column), dw.At(row, column));
      }
    }
  }
}

// Checks that epilogues are fused at all, since the suite would pass without. In fp32 GELU's slope is not fused.
TEST_P(CudaLinearTest, EpiloguesRunInTheLibrary) {
  const int64_t m = 16, n = 32, k = 64;
  const TestTensor x = Random(m, k, 1), w = Random(n, k, 2), bias = Random(1, n, 3), before = Random(m, n, 4);
  const TestTensor y = Random(m, n, 5), dx = Random(m, k, 6), xb = Random(m, k, 7);
  const TestTensor dw(n, k, DType::kF32, 8), db(1, n, DType::kF32, 9);
  ops_->LinearForward(
      *stream_, {.m = m, .n = n, .k = k, .x = x.tensor(), .w = w.tensor(), .bias = bias.tensor(), .y = y.tensor()});
  ops_->LinearGeluForward(*stream_, {.m = m,
                                     .n = n,
                                     .k = k,
                                     .x = x.tensor(),
                                     .w = w.tensor(),
                                     .bias = bias.tensor(),
                                     .before = before.tensor(),
                                     .y = y.tensor()});
  ops_->LinearBackwardInputGelu(
      *stream_,
      {.m = m, .n = n, .k = k, .dy = y.tensor(), .w = w.tensor(), .before = xb.tensor(), .dbefore = dx.tensor()});
  ops_->LinearBackwardWeight(
      *stream_, {.m = m, .n = n, .k = k, .dy = y.tensor(), .x = x.tensor(), .dw = dw.as(), .dbias = db.as()});
  EXPECT_EQ(emulation::cublaslt().products, 4);
  EXPECT_EQ(emulation::cublaslt().fused, !fused() ? 0 : dtype() == DType::kF32 ? 2 : 3);
}

INSTANTIATE_TEST_SUITE_P(Types, CudaLinearTest, ::testing::Combine(::testing::ValuesIn(kTestTypes), ::testing::Bool()),
                         [](const auto& info) {
                           return std::string(DTypeName(std::get<0>(info.param))) +
                                  (std::get<1>(info.param) ? "_fused" : "_apart");
                         });

// A stream and a type, for tests below the level of ops.
class KernelsTest : public ::testing::TestWithParam<DType> {
 protected:
  const std::unique_ptr<CudaStream> stream_ = CudaStream::Create(0).value();
};

TEST_P(KernelsTest, ColumnSumsOfOddRowsAndShiftedStarts) {
  const Workspace workspace = Workspace::Create().value();
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{1, 1}, {300, 7}, {64, 256}, {131, 264}, {1000, 40}}) {
    for (const int64_t skip : {0, 1}) {
      const TestTensor x(m, n, GetParam(), 1, 0, skip), sums(1, n, DType::kF32, 2), before(1, n, DType::kF32, 2);
      AddColumnSums(*stream_, "Test", m, n, {0, n}, x.tensor(), workspace.partials<float>(), sums.as());
      for (int64_t column = 0; column < n; ++column) {
        double want = before.Get(column);
        for (int64_t row = 0; row < m; ++row) want += x.At(row, column);
        ASSERT_NEAR(sums.Get(column), want, Tolerance(DType::kF32, want));
      }
    }
  }
}

struct Head {
  int64_t m, c, vocab;
};

// The loss and gradients of a head cut into chunks of `logits_bytes`, against double. In the half types the logits are
// rounded, and so is everything computed from them.
void ExpectCrossEntropy(Stream& stream, const Head& s, DType dtype, int64_t logits_bytes, float scale) {
  alignas(256) static std::byte workspace[8192];
  const std::unique_ptr<Matmul> matmul = Matmul::Create(workspace, sizeof workspace).value();
  const TestTensor x(s.m, s.c, dtype, 1), w(s.vocab, s.c, dtype, 2), dx(s.m, s.c, dtype, 3);
  const TestTensor dw(s.vocab, s.c, DType::kF32, 4), dw_before(s.vocab, s.c, DType::kF32, 4);
  std::vector<int32_t> targets;
  for (int64_t i = 0; i < s.m; ++i) targets.push_back(static_cast<int32_t>((i * 31 + s.vocab - 1) % s.vocab));
  const CrossEntropyPlan plan(s.m, s.c, s.vocab, dtype, logits_bytes);
  TestTensor scratch(1, plan.bytes / 4, DType::kF32, 5);
  // NaN in the padding shows if it is read as logits.
  for (int64_t i = 0; i < scratch.count(); ++i) scratch.Set(i, std::nanf(""));
  double loss = 0;
  RunCrossEntropy(stream, *matmul, plan,
                  {.m = s.m,
                   .c = s.c,
                   .vocab = s.vocab,
                   .x = x.tensor(),
                   .w = w.tensor(),
                   .targets = targets.data(),
                   .gradient_scale = &scale,
                   .loss_sum = &loss,
                   .dx = dx.tensor(),
                   .dw = dw.as(),
                   .scratch = scratch.as<void>()});
  double want_loss = 0;
  std::vector<double> want_dx(s.m * s.c), want_dw(s.vocab * s.c), p(s.vocab);
  for (int64_t row = 0; row < s.m; ++row) {
    double sum = 0;
    for (int64_t v = 0; v < s.vocab; ++v) sum += p[v] = std::exp(Product(x, w, row, v, s.c));
    want_loss -= std::log(p[targets[row]] / sum);
    for (int64_t v = 0; v < s.vocab; ++v) {
      const double g = scale * (p[v] / sum - (v == targets[row]));
      for (int64_t i = 0; i < s.c; ++i) {
        want_dx[row * s.c + i] += g * w.At(v, i);
        want_dw[v * s.c + i] += g * x.At(row, i);
      }
    }
  }
  EXPECT_NEAR(loss, want_loss, want_loss * (dtype == DType::kF32 ? 1e-6 : 2e-3));
  for (int64_t i = 0; i < s.m * s.c; ++i) {
    ASSERT_NEAR(dx.Get(i), want_dx[i], Tolerance(dtype, want_dx[i]));
  }
  for (int64_t i = 0; i < s.vocab * s.c; ++i) {
    ASSERT_NEAR(dw.Get(i) - dw_before.Get(i), want_dw[i], Tolerance(dtype, want_dw[i]));
  }
}

TEST_P(KernelsTest, CrossEntropyInOneChunkAndMany) {
  for (const Head& head : {Head{1, 3, 2}, Head{7, 20, 53}, Head{5, 8, 64}, Head{150, 12, 257}, Head{2, 2, 20011}}) {
    ExpectCrossEntropy(*stream_, head, GetParam(), kLogitsBytes, 0.25f);
    ExpectCrossEntropy(*stream_, head, GetParam(), int64_t{140} * 320 * DTypeBytes(GetParam()), 2.0f);
  }
  ExpectCrossEntropy(*stream_, {7, 20, 53}, GetParam(), /*logits_bytes=*/1, 1.0f);
}

// Where the vocabulary is odd only the last rows of its gradient are multiplied with an odd extent, once per chunk.
TEST_P(KernelsTest, AnOddVocabularyIsMultipliedInEvenExtents) {
  for (const auto& [vocab, uneven] : {std::pair<int64_t, int64_t>{53, 2}, {64, 0}, {72, 0}}) {
    emulation::cublaslt() = {};
    const int64_t half = int64_t{8} * RoundUp(vocab, 64) * DTypeBytes(GetParam());
    ExpectCrossEntropy(*stream_, {16, 8, vocab}, GetParam(), half, 1.0f);
    EXPECT_EQ(emulation::cublaslt().products, 2 * 3 + uneven);
    EXPECT_EQ(emulation::cublaslt().uneven, uneven) << vocab;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, KernelsTest, ::testing::ValuesIn(kTestTypes),
                         [](const auto& info) { return DTypeName(info.param); });

TEST(GemmPeakTest, IsMeasuredThroughTheSameDoor) {
  emulation::cublaslt() = {};
  EXPECT_GT(CudaOps::Create().value()->MeasureGemmPeak(DType::kBF16, 1), 0);
  EXPECT_GT(emulation::cublaslt().products, 1);
}

TEST(CrossEntropyPlanTest, ChunksAreEvenAndWithinTheirBytes) {
  const CrossEntropyPlan gpt2(16 * 1024, 768, 50257, DType::kBF16);
  EXPECT_EQ(gpt2.stride, 50304);
  EXPECT_EQ(gpt2.rows, 4096);
  EXPECT_EQ(gpt2.bytes, 16 * 1024 * 8 + int64_t{4096} * 50304 * 2 + int64_t{50304} * 768 * 2);
  EXPECT_EQ(CrossEntropyPlan(16 * 1024, 768, 50304, DType::kBF16).bytes, 16 * 1024 * 8 + int64_t{4096} * 50304 * 2);
  EXPECT_EQ(CrossEntropyPlan(100, 768, 50257, DType::kBF16).rows, 100);
  for (const int64_t m : {1, 127, 5000, 6000, 100000}) {
    const CrossEntropyPlan plan(m, 8, 300000, DType::kF32);
    EXPECT_LE(plan.rows * plan.stride * 4, kLogitsBytes);
    EXPECT_GE(plan.rows, 1);
  }
}

}  // namespace
}  // namespace zerofleet::device::cuda
