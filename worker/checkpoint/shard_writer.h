// One rank's part of a checkpoint, written as one file from front to back.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_SHARD_WRITER_H_
#define ZEROFLEET_WORKER_CHECKPOINT_SHARD_WRITER_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/partition.h"
#include "worker/optim/optimizer.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::checkpoint {

// Writes rank `rank`'s file into `partial_dir` (PartialDirectory; made if missing, its parent must exist) and returns
// its manifest entry once the bytes are durable. `stored_ranges` (PartitionMap::StoredRanges) say which elements the
// vectors hold, in the order of `optimizer`'s table; each vector has exactly theirs. The data are hashed as they are
// written and not copied.
//
// The file is created exclusively: AlreadyExists if it is there, whoever wrote it. On any other error the file is
// removed and nothing is to be committed: a failed fsync is not retried.
absl::StatusOr<v1::ShardFile> WriteShard(const std::string& partial_dir, int rank,
                                         const std::vector<coordinator::PlacedRange>& stored_ranges,
                                         const optim::OptimizerRow& optimizer,
                                         const std::vector<std::span<const float>>& vectors);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_SHARD_WRITER_H_
