// The states on the host, cut into pieces that are updated one after another (ZeRO-Offload §5.1).
#ifndef ZEROFLEET_WORKER_ZERO_STATE_TILES_H_
#define ZEROFLEET_WORKER_ZERO_STATE_TILES_H_

#include <cstdint>
#include <vector>

#include "worker/zero/layout.h"

namespace zerofleet::zero {

// Elements [begin, begin + count) of what this rank updates of a unit; all states of a tile are on the host.
struct StateTile {
  int unit;
  int64_t begin, count;
  int64_t state_offset;  // offset in a state vector
};

// The largest tile that a core's cache holds while it is computed and sent.
inline constexpr int64_t kMostTileElements = int64_t{1} << 18;

// The largest tile where nothing is copied. The cores meet once per tile; this is long enough for that not to count.
inline constexpr int64_t kMostInPlaceElements = int64_t{1} << 21;

// Elements of the largest tile, the unit's padding included.
int64_t TileElements(const ZeroLayout& layout, int64_t most = kMostTileElements);

// The tiles in the order in which they are updated, which is that of the next forward pass.
std::vector<StateTile> StateTiles(const ZeroLayout& layout, int64_t most_elements = kMostTileElements);

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_STATE_TILES_H_
