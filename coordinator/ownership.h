// What each rank of a view owns and keeps, as messages: for assignments and for the status that operators see.
#ifndef ZEROFLEET_COORDINATOR_OWNERSHIP_H_
#define ZEROFLEET_COORDINATOR_OWNERSHIP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/partition.h"
#include "zerofleet/v1/checkpoint.pb.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::coordinator {

// One vector of the training state, as a rank keeps it between steps: split by the partition, or whole.
struct StateVector {
  std::string name;  // parameters | gradients | master, exp_avg, ...
  int64_t element_bytes = 0;
  bool split = false;
  bool of_frozen = false;  // frozen units have it, too
};

// Convert ranges to their messages and back.
void SetRanges(const std::vector<PlacedRange>& ranges, google::protobuf::RepeatedPtrField<v1::FlatRange>* message);
std::vector<PlacedRange> RangesOf(const google::protobuf::RepeatedPtrField<v1::FlatRange>& message);

// Equal exactly when two partitions are.
std::string PartitionDigest(const PartitionMap& partition);

// The ranges that each rank owns of each unit, and its bytes of each state at rest (padding included). `partition` is
// over a data group; with tensor groups of `tensor` ranks there are `tensor` data groups, over flat spaces of the same
// form.
v1::PartitionStatus PartitionStatusOf(const PartitionMap& partition, const std::vector<StateVector>& states,
                                      int tensor = 1);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_OWNERSHIP_H_
