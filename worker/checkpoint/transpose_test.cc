// Every element lands where it should, whatever the sides and blocks.
#include "worker/checkpoint/transpose.h"

#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace zerofleet::checkpoint {
namespace {

TEST(TransposeTest, TurnsEveryShape) {
  for (int64_t rows : {1, 3, 32, 33, 70}) {
    for (int64_t columns : {1, 2, 31, 64, 65}) {
      std::vector<float> from(rows * columns), to(rows * columns, -1.0f);
      std::iota(from.begin(), from.end(), 0.0f);
      Transpose(from, rows, columns, to);
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
          ASSERT_EQ(to[column * rows + row], from[row * columns + column]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace zerofleet::checkpoint
