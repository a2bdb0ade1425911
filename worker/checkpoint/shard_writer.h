// Writes one rank's part of a checkpoint as one file, from front to back.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_SHARD_WRITER_H_
#define ZEROFLEET_WORKER_CHECKPOINT_SHARD_WRITER_H_

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/partition.h"
#include "worker/optim/optimizer.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::checkpoint {

// Returns the next bytes of a rank's vectors, which come in the order of the optimizer's table: a piece of any size
// within one vector; empty behind the last. When a piece is requested, even the empty one, the piece before it has been
// hashed and written.
using ShardPieces = std::function<absl::StatusOr<std::span<const std::byte>>()>;

// Writes rank `rank`'s file into `partial_dir` (PartialDirectory; created if missing, its parent must exist) and
// returns its manifest entry once the bytes are durable. `stored_ranges` (PartitionMap::StoredRanges) say which
// elements each vector holds. The data are hashed as they are written, and not copied.
//
// The file is created exclusively: AlreadyExists if it exists, whoever wrote it. On any other error, including one from
// `pieces`, the file is removed and the checkpoint must not be committed: a failed fsync is not retried.
absl::StatusOr<v1::ShardFile> WriteShard(const std::string& partial_dir, int rank,
                                         const std::vector<coordinator::PlacedRange>& stored_ranges,
                                         const optim::OptimizerRow& optimizer, const ShardPieces& pieces);
// Writes a shard whose vectors lie whole in memory.
absl::StatusOr<v1::ShardFile> WriteShard(const std::string& partial_dir, int rank,
                                         const std::vector<coordinator::PlacedRange>& stored_ranges,
                                         const optim::OptimizerRow& optimizer,
                                         const std::vector<std::span<const float>>& vectors);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_SHARD_WRITER_H_
