// Every way a matrix product can run, orientations, strides and mixtures of types, against a product in double.
#include "worker/device/cpu/matmul.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "worker/device/cpu/bf16_dots.h"
#include "worker/device/cpu/matmul_primitive.h"

namespace zerofleet::device {
namespace {

// A matrix with spare columns between its rows, filled with reproducible values in [-1, 1).
struct Stored {
  int64_t rows, columns, stride;
  DType dtype;
  std::vector<float> floats;
  std::vector<BF16> halves;

  Stored(int64_t rows_in, int64_t columns_in, DType type, uint32_t state)
      : rows(rows_in), columns(columns_in), stride(columns_in + 3), dtype(type), floats(rows_in * stride) {
    for (float& value : floats) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
      halves.push_back(ToBF16(value));
      if (type == DType::kBF16) value = ToFloat(halves.back());
    }
  }
  Tensor data() { return dtype == DType::kF32 ? Tensor{floats.data(), dtype} : Tensor{halves.data(), dtype}; }
  float At(int64_t row, int64_t column) const {
    const int64_t at = row * stride + column;
    return dtype == DType::kF32 ? floats[at] : ToFloat(halves[at]);
  }
  // The elements row after row, or column after column.
  std::vector<double> Lines(bool of_columns) const {
    std::vector<double> lines;
    for (int64_t i = 0; i < (of_columns ? columns : rows); ++i) {
      for (int64_t j = 0; j < (of_columns ? rows : columns); ++j) lines.push_back(of_columns ? At(j, i) : At(i, j));
    }
    return lines;
  }
};

struct Case {
  int64_t m, n, k;
  DType a, b, c;
  bool transpose_a, transpose_b, accumulate, bias;
};

void ExpectMatchesDouble(const Case& p, absl::Status (*multiply)(const MatmulArguments&)) {
  Stored a(p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.a, 1);
  Stored b(p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.b, 2);
  Stored c(p.m, p.n, p.c, 3), bias(1, p.n, p.b, 4);
  const Stored before = c;
  MatmulArguments product{.m = p.m,
                          .n = p.n,
                          .k = p.k,
                          .a = {a.data(), a.stride, p.transpose_a},
                          .b = {b.data(), b.stride, p.transpose_b},
                          .c = {c.data(), c.stride},
                          .accumulate = p.accumulate};
  if (p.bias) product.bias = bias.data();
  ASSERT_TRUE(multiply(product).ok());
  const std::vector<double> rows = a.Lines(p.transpose_a), columns = b.Lines(!p.transpose_b);
  for (int64_t row = 0; row < p.m; ++row) {
    for (int64_t column = 0; column < p.n; ++column) {
      double want = (p.accumulate ? before.At(row, column) : 0.0) + (p.bias ? bias.At(0, column) : 0.0);
      const double *x = &rows[row * p.k], *y = &columns[column * p.k];
      for (int64_t i = 0; i < p.k; ++i) want += x[i] * y[i];
      const double tolerance = p.c == DType::kF32 ? 1e-5 * std::sqrt(p.k) : 0x1p-8 * (1 + std::abs(want));
      ASSERT_NEAR(c.At(row, column), want, tolerance) << row << ", " << column;
    }
    for (int64_t spare = p.n; spare < c.stride; ++spare) ASSERT_EQ(c.At(row, spare), before.At(row, spare));
  }
}

absl::Status OnOnePoolThread(const MatmulArguments& arguments) {
  ThreadPool pool(1);
  return Matmul(pool, arguments);
}

absl::Status OnThreePoolThreads(const MatmulArguments& arguments) {
  ThreadPool pool(3);
  return Matmul(pool, arguments);
}

constexpr DType kTypes[] = {DType::kF32, DType::kBF16};

TEST(MatmulTest, EveryMixtureOfTypesAndOrientations) {
  for (const DType a : kTypes) {
    for (const DType b : kTypes) {
      for (const DType c : kTypes) {
        for (const bool ta : {false, true}) {
          for (const bool tb : {false, true}) {
            ExpectMatchesDouble({20, 33, 40, a, b, c, ta, tb, false, false}, SerialMatmul);
            ExpectMatchesDouble({20, 33, 40, a, b, c, ta, tb, false, true}, SerialMatmul);
            if (c == DType::kF32) ExpectMatchesDouble({20, 33, 40, a, b, c, ta, tb, true, false}, SerialMatmul);
          }
        }
      }
    }
  }
}

TEST(MatmulTest, ManyTilesAndPanels) {
  for (const DType type : kTypes) {
    for (const bool transposed : {false, true}) {
      ExpectMatchesDouble({514, 400, 300, type, type, type, transposed, !transposed, false, true}, OnThreePoolThreads);
      ExpectMatchesDouble({514, 400, 300, type, type, DType::kF32, transposed, transposed, true, false},
                          OnThreePoolThreads);
    }
  }
}

// Where there are bf16 instructions, such a result is computed in a buffer, tile by tile.
TEST(MatmulTest, WideResultsInFloat) {
  constexpr DType kHalf = DType::kBF16, kFloat = DType::kF32;
  for (const bool transposed : {false, true}) {
    ExpectMatchesDouble({300, 801, 40, kHalf, kHalf, kFloat, transposed, transposed, false, true}, OnThreePoolThreads);
    ExpectMatchesDouble({5, 1601, 40, kHalf, kHalf, kFloat, transposed, !transposed, false, false}, SerialMatmul);
  }
}

// The gradient of a weight: columns of both operands, in one chunk and in several, added up in one piece and in two.
TEST(MatmulTest, WeightGradients) {
  constexpr DType kHalf = DType::kBF16, kFloat = DType::kF32;
  for (const auto multiply : {SerialMatmul, OnOnePoolThread, OnThreePoolThreads}) {
    ExpectMatchesDouble({70, 48, 1101, kHalf, kHalf, kFloat, true, false, true, false}, multiply);
    ExpectMatchesDouble({401, 800, 33, kHalf, kHalf, kFloat, true, false, true, false}, multiply);
    for (const DType written : {kFloat, kHalf}) {
      ExpectMatchesDouble({70, 48, 33, kHalf, kHalf, written, true, false, false, false}, multiply);
      ExpectMatchesDouble({801, 32, 1101, kHalf, kHalf, written, true, false, false, false}, multiply);
    }
  }
}

void ExpectThatPartsHaveTheWholesBits(DType type, bool accumulate) {
  constexpr int64_t kRows = 1300, kColumns = 32, kDepth = 1030, kFirst = 130, kPart = 900;
  Stored a(kDepth, kRows, DType::kBF16, 1), b(kDepth, kColumns, DType::kBF16, 2);
  Stored whole(kRows, kColumns, type, 3), part = whole;
  MatmulArguments product{.m = kRows,
                          .n = kColumns,
                          .k = kDepth,
                          .a = {a.data(), a.stride, /*transposed=*/true},
                          .b = {b.data(), b.stride},
                          .c = {whole.data(), whole.stride},
                          .accumulate = accumulate};
  ThreadPool pool(3), alone(1);
  ASSERT_TRUE(Matmul(pool, product).ok());
  product.m = kPart;
  product.a.data = a.data().Offset(kFirst);
  product.c.data = part.data().Offset(kFirst * part.stride);
  product.whole_m = kRows;
  ASSERT_TRUE(Matmul(alone, product).ok());
  for (int64_t row = kFirst; row < kFirst + kPart; ++row) {
    for (int64_t column = 0; column < kColumns; ++column) ASSERT_EQ(whole.At(row, column), part.At(row, column));
  }
}

// An element depends on neither the tile nor the number of threads, nor on how many rows are summed at a time.
TEST(MatmulTest, PartsOfAWeightGradientHaveTheWholesBits) {
  if (!bf16_dots::Available()) GTEST_SKIP() << "other products are cut at the edges of tiles alone";
  ExpectThatPartsHaveTheWholesBits(DType::kF32, /*accumulate=*/true);
  ExpectThatPartsHaveTheWholesBits(DType::kF32, /*accumulate=*/false);
  ExpectThatPartsHaveTheWholesBits(DType::kBF16, /*accumulate=*/false);
}

// The primitive takes every type in the same way, so its shapes, strides, bias and sum can be checked in fp32 anywhere.
TEST(MatmulTest, PrimitiveInFloat) {
  constexpr DType kFloat = DType::kF32;
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      ExpectMatchesDouble({20, 33, 40, kFloat, kFloat, kFloat, ta, tb, false, false}, PrimitiveMatmul);
      ExpectMatchesDouble({20, 33, 40, kFloat, kFloat, kFloat, ta, tb, false, true}, PrimitiveMatmul);
      ExpectMatchesDouble({20, 33, 40, kFloat, kFloat, kFloat, ta, tb, true, false}, PrimitiveMatmul);
    }
  }
}

TEST(MatmulTest, PrimitiveInBF16) {
  if (!HasBF16Instructions()) GTEST_SKIP() << "this CPU has no bf16 instructions";
  constexpr DType kHalf = DType::kBF16;
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      ExpectMatchesDouble({20, 33, 40, kHalf, kHalf, kHalf, ta, tb, false, true}, PrimitiveMatmul);
      ExpectMatchesDouble({20, 33, 40, kHalf, kHalf, DType::kF32, ta, tb, true, false}, PrimitiveMatmul);
    }
  }
}

}  // namespace
}  // namespace zerofleet::device
