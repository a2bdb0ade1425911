// The arithmetic of who owns what; see partition.h.
#include "coordinator/partition.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/units.h"

namespace zerofleet::coordinator {

PartitionMap::PartitionMap(std::vector<UnitExtent> units, int world_size)
    : units_(std::move(units)), world_size_(world_size) {
  ZF_CHECK(world_size_ >= 1);
  int64_t expected = 0;
  for (int u = 0; u < unit_count(); ++u) {
    ZF_CHECK(units_[u].flat_begin == expected);
    ZF_CHECK(units_[u].flat_end > units_[u].flat_begin);
    expected = units_[u].flat_end;
    shard_offset_.push_back(total_shard_);
    total_shard_ += ShardElements(u);
    trained_offset_.push_back(trained_shard_);
    if (!units_[u].frozen) trained_shard_ += ShardElements(u);
  }
}

int64_t PartitionMap::PaddedElements(int unit) const {
  return RoundUp(units_[unit].elements(), world_size_ * kShardAlignment);
}

int64_t PartitionMap::TotalElements() const { return units_.empty() ? 0 : units_.back().flat_end; }

int64_t PartitionMap::TrainedElements() const {
  int64_t elements = 0;
  for (const UnitExtent& unit : units_) elements += unit.frozen ? 0 : unit.elements();
  return elements;
}

PlacedRange PartitionMap::Owned(int unit, int rank) const {
  const UnitExtent& extent = units_[unit];
  int64_t begin = std::min(extent.flat_begin + rank * ShardElements(unit), extent.flat_end);
  int64_t end = std::min(begin + ShardElements(unit), extent.flat_end);
  return {begin, end, ShardOffset(unit)};
}

std::vector<PlacedRange> PartitionMap::StoredRanges(int rank) const {
  std::vector<PlacedRange> ranges;
  int64_t offset = 0;
  for (int u = 0; u < unit_count(); ++u) {
    PlacedRange owned = Owned(u, rank);
    if (owned.elements() == 0 || units_[u].frozen) continue;
    ranges.push_back({owned.flat_begin, owned.flat_end, offset});
    offset += owned.elements();
  }
  return ranges;
}

std::string PartitionMap::Describe() const {
  std::string text = absl::StrCat("ranks ", world_size_, " alignment ", kShardAlignment, "\n");
  for (const UnitExtent& unit : units_)
    absl::StrAppend(&text, unit.name, " ", unit.flat_begin, " ", unit.flat_end, unit.frozen ? " frozen\n" : "\n");
  return text;
}

}  // namespace zerofleet::coordinator
