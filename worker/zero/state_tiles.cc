// See state_tiles.h.
#include "worker/zero/state_tiles.h"

#include <algorithm>

namespace zerofleet::zero {

int64_t TileElements(const ZeroLayout& layout) {
  int64_t most = 0;
  for (int u = 0; u < layout.units(); ++u) most = std::max(most, layout.partition().ShardElements(u));
  return std::min(most, kMostTileElements);
}

std::vector<StateTile> StateTiles(const ZeroLayout& layout) {
  const int64_t most = TileElements(layout);
  std::vector<StateTile> tiles;
  for (int u = 0; u < layout.units(); ++u) {
    const ZeroLayout::Piece piece = layout.Updated(u);
    for (int64_t begin = layout.StaysOnDevice(u); begin < piece.elements(); begin += most) {
      tiles.push_back({u, begin, std::min(most, piece.elements() - begin), piece.state_offset + begin});
    }
  }
  return tiles;
}

}  // namespace zerofleet::zero
