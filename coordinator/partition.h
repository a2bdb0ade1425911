// Which rank owns which part of the training state.
//
// The flat space is every model tensor in table order, concatenated without padding; a unit (the embedding, one block,
// the head) is a contiguous extent of it. Each unit is padded to a multiple of world_size * kShardAlignment elements
// and cut into world_size equal shards; rank r owns the r-th (ZeRO §5.1 to §5.3, per unit, so that every
// stage shares one layout). The padding lies at a unit's end, holds zeros and is never stored.
#ifndef ZEROFLEET_COORDINATOR_PARTITION_H_
#define ZEROFLEET_COORDINATOR_PARTITION_H_

#include <cstdint>
#include <string>
#include <vector>

namespace zerofleet::coordinator {

inline constexpr int64_t kShardAlignment = 32;  // elements; 64 bytes of bf16

struct UnitExtent {
  std::string name;
  int64_t flat_begin, flat_end;
  bool frozen = false;  // its parameters do not change: it has neither gradients nor optimizer states
  int64_t elements() const { return flat_end - flat_begin; }
};

// A range of the flat space, and its place in some buffer or file vector.
struct PlacedRange {
  int64_t flat_begin, flat_end;
  int64_t offset;
  int64_t elements() const { return flat_end - flat_begin; }
  bool operator==(const PlacedRange&) const = default;
};

class PartitionMap {
 public:
  PartitionMap(std::vector<UnitExtent> units, int world_size);

  int world_size() const { return world_size_; }
  int unit_count() const { return static_cast<int>(units_.size()); }
  const UnitExtent& unit(int u) const { return units_[u]; }

  int64_t PaddedElements(int unit) const;  // the whole unit's
  int64_t ShardElements(int unit) const { return PaddedElements(unit) / world_size_; }
  int64_t TotalShardElements() const { return total_shard_; }  // one rank's share, padding included
  int64_t TotalPaddedElements() const { return total_shard_ * world_size_; }
  int64_t TotalElements() const;                                       // without padding
  int64_t ShardOffset(int unit) const { return shard_offset_[unit]; }  // in a rank's concatenated shards

  // The same for only the units that are not frozen, whose elements gradients and optimizer states have.
  int64_t TrainedShardElements() const { return trained_shard_; }
  int64_t TrainedPaddedElements() const { return trained_shard_ * world_size_; }
  int64_t TrainedElements() const;
  int64_t TrainedShardOffset(int unit) const { return trained_offset_[unit]; }  // frozen units have none

  // The unpadded flat range that `rank` owns of `unit`; may be empty.
  PlacedRange Owned(int unit, int rank) const;
  // The non-empty ranges that `rank` owns of units that are not frozen, ascending. Offsets are places in the rank's
  // stored vector, which has no padding.
  std::vector<PlacedRange> StoredRanges(int rank) const;

  // A text that is equal for two maps exactly if the maps are equal.
  std::string Describe() const;

 private:
  std::vector<UnitExtent> units_;
  int world_size_;
  std::vector<int64_t> shard_offset_, trained_offset_;
  int64_t total_shard_ = 0, trained_shard_ = 0;
};

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_PARTITION_H_
