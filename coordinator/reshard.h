// Moving from one partition to another, as a list of copies. Loading a checkpoint at another world size or stage and
// changes of membership all use this one function.
#ifndef ZEROFLEET_COORDINATOR_RESHARD_H_
#define ZEROFLEET_COORDINATOR_RESHARD_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/partition.h"

namespace zerofleet::coordinator {

// `length` elements from `source_offset` in source number `source` to `target_offset` in the target.
struct RangeCopy {
  int source;
  int64_t source_offset, target_offset, length;
  bool operator==(const RangeCopy&) const = default;
};

// The copies that fill every range of `target` from `sources` (one list of ranges each: a file, or a rank). Where
// several sources hold an element, the first is used. DataLoss, naming the first missing element, if none holds it.
// Copies come in ascending order of (source, source_offset), so that each source is read once, forwards.
absl::StatusOr<std::vector<RangeCopy>> Reshard(const std::vector<std::vector<PlacedRange>>& sources,
                                               const std::vector<PlacedRange>& target);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_RESHARD_H_
