// See state_tiles.h.
#include "worker/zero/state_tiles.h"

#include <algorithm>

namespace zerofleet::zero {

int64_t TileElements(const ZeroLayout& layout, int64_t most) {
  int64_t largest = 0;
  for (int u = 0; u < layout.units(); ++u) {
    if (!layout.frozen(u)) largest = std::max(largest, layout.partition().ShardElements(u));
  }
  return std::min(largest, most);
}

std::vector<StateTile> StateTiles(const ZeroLayout& layout, int64_t most_elements) {
  const int64_t most = TileElements(layout, most_elements);
  std::vector<StateTile> tiles;
  for (int u = 0; u < layout.units(); ++u) {
    const ZeroLayout::UpdatedRange piece = layout.Updated(u);
    for (int64_t begin = layout.StaysOnDevice(u); begin < piece.elements(); begin += most) {
      tiles.push_back({u, begin, std::min(most, piece.elements() - begin), piece.state_offset + begin});
    }
  }
  return tiles;
}

}  // namespace zerofleet::zero
