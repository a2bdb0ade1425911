// Comparing an assignment with what this worker computes; see partition_check.h.
#include "worker/trainer/partition_check.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "coordinator/ownership.h"

namespace zerofleet::trainer {

absl::Status CheckPartition(const v1::Assignment& assignment, const parallel::Group& data,
                            const coordinator::PartitionMap& partition) {
  const std::string mine = coordinator::PartitionDigest(partition);
  const bool same = assignment.partition_digest() == mine &&
                    coordinator::RangesOf(assignment.owned()) == partition.StoredRanges(data.rank);
  if (same) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the partition of the training state differs: the coordinator has ",
                   absl::CHexEscape(assignment.partition_digest().substr(0, mine.size())), ", this worker ", mine,
                   "; both must run the same executable"));
}

}  // namespace zerofleet::trainer
