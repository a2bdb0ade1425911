// The reference's result, and the same result for a matrix and its transpose.
#include "worker/optim/newton_schulz.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "worker/device/device.h"

namespace zerofleet::optim {
namespace {

std::vector<float> Orthogonalised(int64_t rows, int64_t columns, std::vector<float> x) {
  const auto device = *device::CreateDevice({.kind = "cpu", .threads = 2});
  const auto stream = *device->CreateStream();
  const int64_t side = std::min(rows, columns);
  std::vector<float> next(rows * columns), gram(side * side), squared(side * side);
  double sum = 0;
  NewtonSchulz(device->ops(), *stream, rows, columns, x.data(), {next.data(), gram.data(), squared.data(), &sum});
  return x;
}

std::vector<float> Random(int64_t count) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Five steps of the reference, in double.
std::vector<double> Reference(int64_t rows, int64_t columns, const std::vector<float>& given) {
  std::vector<double> x(given.begin(), given.end()), gram(rows * rows), b(rows * rows), next(rows * columns);
  double squares = 0;
  for (const double value : x) squares += value * value;
  for (double& value : x) value /= std::sqrt(squares);
  for (int step = 0; step < kNewtonSchulzSteps; ++step) {
    for (int64_t i = 0; i < rows * rows; ++i) {
      gram[i] = 0;
      for (int64_t k = 0; k < columns; ++k) gram[i] += x[i / rows * columns + k] * x[i % rows * columns + k];
    }
    for (int64_t i = 0; i < rows * rows; ++i) {
      double square = 0;
      for (int64_t k = 0; k < rows; ++k) square += gram[i / rows * rows + k] * gram[k * rows + i % rows];
      b[i] = -4.7750 * gram[i] + 2.0315 * square;
    }
    for (int64_t i = 0; i < rows * columns; ++i) {
      next[i] = 3.4445 * x[i];
      for (int64_t k = 0; k < rows; ++k) next[i] += b[i / columns * rows + k] * x[k * columns + i % columns];
    }
    x = next;
  }
  return x;
}

TEST(NewtonSchulz, IsTheReferences) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{6, 20}, {16, 16}, {1, 7}}) {
    const std::vector<float> x = Random(rows * columns);
    const std::vector<float> got = Orthogonalised(rows, columns, x);
    const std::vector<double> want = Reference(rows, columns, x);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-5) << rows << " " << i;
  }
}

TEST(NewtonSchulz, OfATallMatrixIsThatOfItsTranspose) {
  constexpr int64_t kRows = 24, kColumns = 8;
  const std::vector<float> x = Random(kRows * kColumns);
  std::vector<float> turned(x.size());
  for (int64_t i = 0; i < kRows * kColumns; ++i) turned[i % kColumns * kRows + i / kColumns] = x[i];
  const std::vector<float> tall = Orthogonalised(kRows, kColumns, x), wide = Orthogonalised(kColumns, kRows, turned);
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    EXPECT_NEAR(tall[i], wide[i % kColumns * kRows + i / kColumns], 1e-5);
  }
}

TEST(NewtonSchulz, OfZerosIsZeros) { EXPECT_EQ(Orthogonalised(3, 5, std::vector<float>(15)), std::vector<float>(15)); }

}  // namespace
}  // namespace zerofleet::optim
