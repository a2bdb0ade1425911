// Elements per block that a thread takes from an op: enough to pay for the hand-over, few enough to share the work
// evenly.
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_BLOCKS_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_BLOCKS_H_

#include <algorithm>
#include <cstdint>

namespace zerofleet::device {

inline constexpr int64_t kElementBlock = 16384;

// The alignment of the parts of an op's scratch memory: a cache line, and the widest vector.
inline constexpr int64_t kAlignBytes = 64;

// Rows of `columns` elements that make up about one element block.
inline int64_t RowBlock(int64_t columns) { return std::max<int64_t>(1, kElementBlock / columns); }

// The position of row `row` of a (B,T,...) tensor, for an op whose arguments have `time` and `starts`.
template <typename Arguments>
int64_t PositionOf(const Arguments& p, int64_t row) {
  const int64_t time = row % p.time;
  return p.starts == nullptr ? time : time - p.starts[row];
}

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_BLOCKS_H_
