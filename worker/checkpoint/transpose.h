// Transposes row-major matrices, in blocks that fit the cache.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_TRANSPOSE_H_
#define ZEROFLEET_WORKER_CHECKPOINT_TRANSPOSE_H_

#include <cstdint>
#include <span>

namespace zerofleet::checkpoint {

// `to` (columns, rows) becomes the transpose of `from` (rows, columns); they do not overlap.
void Transpose(std::span<const float> from, int64_t rows, int64_t columns, std::span<float> to);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_TRANSPOSE_H_
