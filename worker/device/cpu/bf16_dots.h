// Small products of bf16 matrices by the dot products of AVX-512 BF16, for the attention of one head
// (attention_bf16.h).
//
// The instruction multiplies pairs of consecutive bf16 values and adds both products to an fp32 sum, sixteen sums at a
// time. So one operand lies as rows of pairs, of which one is broadcast; the other as rows of sixteen and more words,
// each the pair of one column. A pair is one 32-bit word, the first value in its lower half. The instruction takes
// subnormal numbers as 0.
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_BF16_DOTS_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_BF16_DOTS_H_

#include <cstdint>

#include "worker/device/dtype.h"

namespace zerofleet::device::bf16_dots {

inline constexpr int64_t kLanes = 16;       // columns of a vector
inline constexpr int64_t kStripRows = 6;    // most rows of a product
inline constexpr int64_t kChunkLanes = 64;  // columns that a product computes at a time

// Whether this build and this CPU have the instructions, PinIsa allows them, and AMX has nothing better. The functions
// below may be called only then.
bool Available();

// c(rows, columns) = (or with `add`: += ) the sum over i < pairs of dot(a(row, i), b(i, column)), added up in the order
// of i, so that an element's bits depend on nothing else. Where `rounded` is set, c + the sum (or without `add` the sum
// alone) is rounded and stored there, and c is left as it is.
struct Product {
  int64_t rows;     // 1 to kStripRows
  int64_t columns;  // a multiple of kLanes
  int64_t pairs;
  const uint32_t* a;  // pair i of a row is at row * a_row + i * a_pair
  int64_t a_row, a_pair;
  const uint32_t* b;  // column n of pair i is at n / kChunkLanes * b_chunk + i * kChunkLanes + n % kChunkLanes
  int64_t b_chunk;
  float* c;  // rows are c_row apart
  int64_t c_row;
  bool add = false;
  BF16* rounded = nullptr;  // rows are rounded_row apart
  int64_t rounded_row = 0;
};
void Multiply(const Product& product);

// These pack a matrix of `rows` rows of `columns` values, which are `stride` values apart, into chunks as Product has
// them for b.

// Makes columns of the matrix's rows, and pairs of its columns, whose number is a multiple of kLanes. Columns up to the
// next multiple of kChunkLanes are 0. A chunk has columns / 2 * kChunkLanes words.
void PackRows(int64_t rows, int64_t columns, const BF16* from, int64_t stride, uint32_t* to);
// Keeps the matrix's columns, and makes pairs of its rows; the partner of an odd last row is 0. A chunk has
// CeilDivide(rows, 2) * kChunkLanes words.
void PackPairsOfRows(int64_t rows, int64_t columns, const BF16* from, int64_t stride, uint32_t* to);

}  // namespace zerofleet::device::bf16_dots

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_BF16_DOTS_H_
