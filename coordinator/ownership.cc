// A partition as messages; see ownership.h.
#include "coordinator/ownership.h"

#include "base/digest.h"

namespace zerofleet::coordinator {
namespace {

void SetRange(const PlacedRange& range, v1::FlatRange* message) {
  message->set_flat_begin(range.flat_begin);
  message->set_flat_end(range.flat_end);
  message->set_offset(range.offset);
}

}  // namespace

void SetRanges(const std::vector<PlacedRange>& ranges, google::protobuf::RepeatedPtrField<v1::FlatRange>* message) {
  message->Clear();
  for (const PlacedRange& range : ranges) SetRange(range, message->Add());
}

std::vector<PlacedRange> RangesOf(const google::protobuf::RepeatedPtrField<v1::FlatRange>& message) {
  std::vector<PlacedRange> ranges;
  for (const v1::FlatRange& range : message) ranges.push_back({range.flat_begin(), range.flat_end(), range.offset()});
  return ranges;
}

std::string PartitionDigest(const PartitionMap& partition) { return Digest128(partition.Describe()); }

v1::PartitionStatus PartitionStatusOf(const PartitionMap& partition, const std::vector<StateVector>& states,
                                      int tensor) {
  v1::PartitionStatus status;
  for (int u = 0; u < partition.unit_count(); ++u) {
    v1::UnitStatus& unit = *status.add_units();
    unit.set_name(partition.unit(u).name);
    unit.set_flat_begin(partition.unit(u).flat_begin);
    unit.set_flat_end(partition.unit(u).flat_end);
  }
  for (int rank = 0; rank < partition.world_size() * tensor; ++rank) {
    v1::RankPartition& part = *status.add_ranks();
    part.set_rank(rank);
    for (int u = 0; u < partition.unit_count(); ++u) SetRange(partition.Owned(u, rank / tensor), part.add_owned());
    for (const StateVector& state : states) {
      v1::StateBytes& entry = *part.add_states();
      entry.set_name(state.name);
      const int64_t shard = state.of_frozen ? partition.TotalShardElements() : partition.TrainedShardElements();
      entry.set_bytes(state.element_bytes * shard * (state.split ? 1 : partition.world_size()));
    }
  }
  return status;
}

}  // namespace zerofleet::coordinator
