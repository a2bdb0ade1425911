// Block by block; see transpose.h.
#include "worker/checkpoint/transpose.h"

#include <algorithm>

#include "base/check.h"

namespace zerofleet::checkpoint {

void Transpose(std::span<const float> from, int64_t rows, int64_t columns, std::span<float> to) {
  constexpr int64_t kBlock = 32;
  ZF_CHECK(static_cast<int64_t>(from.size()) == rows * columns);
  ZF_CHECK(to.size() == from.size());
  for (int64_t row_block = 0; row_block < rows; row_block += kBlock) {
    for (int64_t column_block = 0; column_block < columns; column_block += kBlock) {
      for (int64_t row = row_block; row < std::min(row_block + kBlock, rows); ++row) {
        for (int64_t column = column_block; column < std::min(column_block + kBlock, columns); ++column) {
          to[column * rows + row] = from[row * columns + column];
        }
      }
    }
  }
}

}  // namespace zerofleet::checkpoint
