// Kernels over rows on the emulated GPU, in cases the conformance suite does not cover: widths that are not a multiple
// of a vector, rows and parameters at unaligned addresses, results in place, threads in other orders.
#include <algorithm>
#include <cmath>
#include <vector>

#include "worker/device/cuda/kernel_testing.h"
#include "worker/device/layer_norm_testing.h"

namespace zerofleet::device::cuda {
namespace {

constexpr int64_t kWidths[] = {1, 7, 33, 64, 250, 1000, 1600, 5000};

using RowsTest = KernelTest;

TEST_F(RowsTest, Gelu) {
  for (const DType dtype : kAllTypes) {
    for (const int64_t count : {0, 1, 7, 1000, 4097}) {
      for (const int64_t skip : {0, 1, 3, 8}) {
        const Vector x(device(), count, dtype, 1, skip), y(device(), count, dtype, 2, skip == 3 ? 1 : skip);
        std::vector<double> want;
        for (const double v : x.Values()) {
          want.push_back(0.5 * v * (1 + std::tanh(std::sqrt(M_2_PI) * (v + 0.044715 * v * v * v))));
        }
        ops().GeluForward(stream(), count, x.tensor(), y.tensor());
        ExpectNear(y, want, Rounding(dtype));
        ops().GeluForward(stream(), count, x.tensor(), x.tensor());
        ASSERT_EQ(x.Bytes(), y.Bytes());
      }
    }
  }
}

struct Norm {
  std::vector<double> y, dx, dgamma, dbeta;
};

Norm NormInDouble(int64_t m, int64_t c, const Vector& x, const Vector& gamma, const Vector& beta, const Vector& dy,
                  const std::vector<float>& dx, const std::vector<float>& dgamma, const std::vector<float>& dbeta) {
  Norm want{std::vector<double>(m * c), std::vector<double>(dx.begin(), dx.end()),
            std::vector<double>(dgamma.begin(), dgamma.end()), std::vector<double>(dbeta.begin(), dbeta.end())};
  for (int64_t row = 0; row < m; ++row) {
    double mean = 0, variance = 0, mean_g = 0, mean_gn = 0;
    for (int64_t i = 0; i < c; ++i) mean += x.Get(row * c + i) / static_cast<double>(c);
    for (int64_t i = 0; i < c; ++i) variance += std::pow(x.Get(row * c + i) - mean, 2) / static_cast<double>(c);
    const double rstd = 1 / std::sqrt(variance + 1e-5);
    const auto normal = [&](int64_t i) { return (x.Get(row * c + i) - mean) * rstd; };
    const auto g = [&](int64_t i) { return static_cast<double>(dy.Get(row * c + i)) * gamma.Get(i); };
    for (int64_t i = 0; i < c; ++i) {
      want.y[row * c + i] = normal(i) * gamma.Get(i) + beta.Get(i);
      mean_g += g(i) / static_cast<double>(c);
      mean_gn += g(i) * normal(i) / static_cast<double>(c);
      want.dgamma[i] += dy.Get(row * c + i) * normal(i);
      want.dbeta[i] += dy.Get(row * c + i);
    }
    for (int64_t i = 0; i < c; ++i) want.dx[row * c + i] += (g(i) - mean_g - normal(i) * mean_gn) * rstd;
  }
  return want;
}

class LayerNormTest : public KernelTest {
 protected:
  // Runs forward and backward, compares the results with double, and returns their bytes. `skip` shifts the addresses
  // of gamma, beta and their gradients.
  std::vector<std::vector<uint8_t>> Run(int64_t m, int64_t c, DType dtype, int64_t skip, int64_t row_skip) {
    const Vector x(device(), m * c, dtype, 1, row_skip), dy(device(), m * c, dtype, 2, row_skip);
    const Vector gamma(device(), c, dtype, 3, skip), beta(device(), c, dtype, 4, skip);
    const Vector y(device(), m * c, dtype, 5, row_skip), dx(device(), m * c, dtype, 6, row_skip);
    const Vector mean(device(), m, DType::kF32, 7), rstd(device(), m, DType::kF32, 8);
    const Vector dgamma(device(), c, DType::kF32, 9, skip), dbeta(device(), c, DType::kF32, 10, skip);
    const Norm want = NormInDouble(m, c, x, gamma, beta, dy, dx.Values(), dgamma.Values(), dbeta.Values());
    RunLayerNorm<Vector>(ops(), stream(), {m, c, x, gamma, beta, dy, y, mean, rstd, dx, dgamma, dbeta});
    ExpectNear(y, want.y, Rounding(dtype, 4));
    double largest = 1;  // a row of one or two elements has a large rstd
    for (const double value : want.dx) largest = std::max(largest, std::abs(value));
    ExpectNear(dx, want.dx, Rounding(dtype, 2 * largest));
    ExpectNear(dgamma, want.dgamma, 1e-5 * static_cast<double>(m));
    ExpectNear(dbeta, want.dbeta, 1e-6 * static_cast<double>(m));
    return {y.Bytes(), dx.Bytes(), dgamma.Bytes(), dbeta.Bytes(), mean.Bytes(), rstd.Bytes()};
  }
};

TEST_F(LayerNormTest, AnyWidthAndAlignmentGiveTheSameBits) {
  for (const DType dtype : kAllTypes) {
    for (const int64_t c : kWidths) {
      if (dtype == DType::kF16 && c > 64) continue;  // fp16 takes the same path as bf16
      const int64_t m = c > 250 ? 3 : 17;
      const auto aligned = Run(m, c, dtype, 0, 0);
      InEveryOrder([&] { return Run(m, c, dtype, 0, 0); });
      EXPECT_TRUE(Run(m, c, dtype, 3, 0) == aligned) << c;
      EXPECT_TRUE(Run(m, c, dtype, 0, 1) == aligned) << c;
    }
  }
}

// Fewer rows than a chunk, several chunks, and so many rows that chunks grow beyond kFewestNormRows.
TEST_F(LayerNormTest, ManyRowsAreAddedInOneOrder) {
  for (const int64_t m : {1, 64, 65, 200}) {
    InEveryOrder([&] { return Run(m, 33, DType::kF32, 0, 0); });
    InEveryOrder([&] { return Run(m, 8, DType::kBF16, 1, 0); });
  }
  Run(26000, 8, DType::kF32, 0, 0);
}

class EmbeddingTest : public KernelTest {
 protected:
  void Run(int64_t batch, int64_t time, int64_t c, int64_t vocab, DType dtype, int64_t skip, int64_t document = 0);
};

// With `document` above 0, documents of that length follow one another in each sequence.
void EmbeddingTest::Run(int64_t batch, int64_t time, int64_t c, int64_t vocab, DType dtype, int64_t skip,
                        int64_t document) {
  const int64_t m = batch * time;
  const auto memory = device().Reserve(m * 4).value();
  int32_t* const tokens = reinterpret_cast<int32_t*>(memory->data());
  // Mostly one token, so that its chain is long, and some that occur once.
  for (int64_t i = 0; i < m; ++i) tokens[i] = static_cast<int32_t>(i % 3 == 0 ? i * 7919 % vocab : vocab / 2);
  std::vector<int32_t> starts;
  for (int64_t i = 0; document > 0 && i < m; ++i) {
    starts.push_back(static_cast<int32_t>(i % time / document * document));
  }
  const DeviceTensor documents(device(), starts);
  const auto position = [&](int64_t row) { return row % time - (starts.empty() ? 0 : starts[row]); };
  const Vector wte(device(), vocab * c, dtype, 1, skip), wpe(device(), (time + 1) * c, dtype, 2, skip);
  const Vector x(device(), m * c, dtype, 3, skip);
  ops().EmbeddingForward(stream(), {.batch = batch,
                                    .time = time,
                                    .c = c,
                                    .tokens = tokens,
                                    .wte = wte.tensor(),
                                    .wpe = wpe.tensor(),
                                    .x = x.tensor(),
                                    .starts = documents.as<int32_t>()});
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t i = 0; i < c; ++i) {
      ASSERT_EQ(x.Get(row * c + i), Rounded(wte.Get(tokens[row] * c + i) + wpe.Get(position(row) * c + i), dtype));
    }
  }
  InEveryOrder([&] {
    const Vector dwte(device(), vocab * c, DType::kF32, 4, skip), dwpe(device(), (time + 1) * c, DType::kF32, 5, 0);
    std::vector<float> want_token = dwte.Values(), want_position = dwpe.Values();
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t i = 0; i < c; ++i) {
        want_token[tokens[row] * c + i] += x.Get(row * c + i);
        want_position[position(row) * c + i] += x.Get(row * c + i);
      }
    }
    ops().EmbeddingBackward(stream(), {.batch = batch,
                                       .time = time,
                                       .c = c,
                                       .tokens = tokens,
                                       .dx = x.tensor(),
                                       .dwte = dwte.as(),
                                       .dwpe = dwpe.as(),
                                       .starts = documents.as<int32_t>()});
    EXPECT_EQ(dwte.Values(), want_token);  // in token order: exactly these bits
    EXPECT_EQ(dwpe.Values(), want_position);
    return dwte.Bytes();
  });
}

TEST_F(EmbeddingTest, EveryWidth) {
  for (const DType dtype : kAllTypes) {
    for (const int64_t c : kWidths) {
      if (dtype == DType::kF16 && c > 64) continue;  // fp16 takes the same path as bf16
      for (const int64_t skip : {0, 1}) Run(2, 5, c, 7, dtype, skip);
    }
  }
}

// Chains of equal tokens that cross the search's blocks and tiles.
TEST_F(EmbeddingTest, LongSequences) {
  Run(1, 1, 4, 1, DType::kF32, 0);
  Run(3, 257, 4, 300, DType::kBF16, 0);
  Run(2, 1300, 4, 2000, DType::kF32, 0);
  Run(1, 2600, 3, 1, DType::kF16, 0);
}

// Positions, too, are chained where they start anew with each document.
TEST_F(EmbeddingTest, PackedDocuments) {
  Run(3, 257, 4, 300, DType::kBF16, 1, 5);
  Run(2, 1300, 3, 2000, DType::kF32, 0, 700);
  Run(1, 2600, 4, 1, DType::kF16, 0, 1);
  Run(2, 5, 133, 7, DType::kF32, 0, 5);
}

TEST_F(EmbeddingTest, MoreTokensThanTheWorkspaceChainsAreRefused) {
  const Vector dx(device(), 4, DType::kF32, 1), dwte(device(), 4, DType::kF32, 2);
  const std::vector<float> before = dwte.Values();
  ops().EmbeddingBackward(stream(), {.batch = 4097,
                                     .time = 1024,
                                     .c = 4,
                                     .tokens = nullptr,
                                     .dx = dx.tensor(),
                                     .dwte = dwte.as(),
                                     .dwpe = dwte.as()});
  const absl::Status status = stream().Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "EmbeddingBackward: a micro-batch of 4195328 tokens; the cuda device takes at most 4194304 at once");
  EXPECT_EQ(dwte.Values(), before);
}

}  // namespace
}  // namespace zerofleet::device::cuda
