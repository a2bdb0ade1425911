// Packing and products, against sums in double, for every number of rows and vectors.
#include "worker/device/cpu/bf16_dots.h"

#include <vector>

#include "gtest/gtest.h"

namespace zerofleet::device::bf16_dots {
namespace {

// Rows of reproducible values in [-1, 1), with three more behind each row.
struct Values {
  int64_t rows, columns, stride;
  std::vector<BF16> stored;

  Values(int64_t of_rows, int64_t of_columns, uint32_t state)
      : rows(of_rows), columns(of_columns), stride(of_columns + 4), stored(of_rows * stride) {
    for (BF16& value : stored) {
      state = state * 1664525u + 1013904223u;
      value = ToBF16(static_cast<float>(state >> 8) * 0x1p-23f - 1.0f);
    }
  }
  double At(int64_t row, int64_t column) const { return ToFloat(stored[row * stride + column]); }
  const uint32_t* Pairs() const { return reinterpret_cast<const uint32_t*>(stored.data()); }
};

class BF16DotsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!Available()) GTEST_SKIP() << "this CPU has none of these instructions, or AMX";
  }
};

TEST_F(BF16DotsTest, RowsTimesRows) {
  constexpr int64_t kDepth = 48;
  for (int64_t rows = 1; rows <= kStripRows; ++rows) {
    for (const int64_t others : {1, 16, 33, 64, 100, 130}) {
      const Values x(rows, kDepth, 1), y(others, kDepth, 2);
      const int64_t columns = (others + kLanes - 1) / kLanes * kLanes, chunk = kDepth / 2 * kChunkLanes;
      std::vector<uint32_t> packed((others + kChunkLanes - 1) / kChunkLanes * chunk, 0x7fc07fc0u);
      PackRows(others, kDepth, y.stored.data(), y.stride, packed.data());
      std::vector<float> c(rows * columns, 5.0f);
      Product product{.rows = rows,
                      .columns = columns,
                      .pairs = kDepth / 2,
                      .a = x.Pairs(),
                      .a_row = x.stride / 2,
                      .a_pair = 1,
                      .b = packed.data(),
                      .b_chunk = chunk,
                      .c = c.data(),
                      .c_row = columns};
      for (const double times : {1, 2}) {
        Multiply(product);
        product.add = true;
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t column = 0; column < columns; ++column) {
            double want = 0;
            for (int64_t i = 0; column < others && i < kDepth; ++i) want += x.At(row, i) * y.At(column, i);
            ASSERT_NEAR(c[row * columns + column], times * want, 1e-4) << rows << " x " << others;
          }
        }
      }
    }
  }
}

// The other operand's columns, and the first one transposed: its pairs are those of two rows.
TEST_F(BF16DotsTest, TransposedTimesColumns) {
  constexpr int64_t kRows = 21, kColumns = 80;
  for (const int64_t depth : {1, 2, 7, 48, 200}) {
    const Values x(depth, kRows, 3), y(depth, kColumns, 4);
    const int64_t pairs = (depth + 1) / 2;
    std::vector<uint32_t> left(pairs * kChunkLanes), right(2 * pairs * kChunkLanes);
    PackPairsOfRows(depth, kRows, x.stored.data(), x.stride, left.data());
    PackPairsOfRows(depth, kColumns, y.stored.data(), y.stride, right.data());
    std::vector<float> c(kStripRows * kColumns, 3.0f);
    Multiply({.rows = kStripRows,
              .columns = kColumns,
              .pairs = pairs,
              .a = left.data() + kRows - kStripRows,
              .a_row = 1,
              .a_pair = kChunkLanes,
              .b = right.data(),
              .b_chunk = pairs * kChunkLanes,
              .c = c.data(),
              .c_row = kColumns,
              .add = true});
    for (int64_t row = 0; row < kStripRows; ++row) {
      for (int64_t column = 0; column < kColumns; ++column) {
        double want = 3;
        for (int64_t i = 0; i < depth; ++i) want += x.At(i, row + kRows - kStripRows) * y.At(i, column);
        ASSERT_NEAR(c[row * kColumns + column], want, 1e-4) << "depth " << depth;
      }
    }
  }
}

}  // namespace
}  // namespace zerofleet::device::bf16_dots
