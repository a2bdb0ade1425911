// The size of the blocks that threads take from an op: large enough to pay for the hand-over, small enough to share the
// work evenly.
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_BLOCKS_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_BLOCKS_H_

#include <algorithm>
#include <cstdint>

namespace zerofleet::device {

inline constexpr int64_t kElementBlock = 16384;

// Rows of `columns` elements that make up about one element block.
inline int64_t RowBlock(int64_t columns) { return std::max<int64_t>(1, kElementBlock / columns); }

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_BLOCKS_H_
