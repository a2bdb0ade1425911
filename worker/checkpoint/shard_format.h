// The layout of a rank's file: safetensors with the optimizer's fp32 vectors, which have equal lengths.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_SHARD_FORMAT_H_
#define ZEROFLEET_WORKER_CHECKPOINT_SHARD_FORMAT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "worker/checkpoint/safetensors.h"
#include "worker/optim/optimizer.h"

namespace zerofleet::checkpoint {

// Bytes read, hashed and written at a time.
inline constexpr int64_t kShardChunkBytes = int64_t{4} << 20;

// 7 -> "rank-00007.safetensors".
std::string ShardFileName(int rank);
bool IsShardFileName(const std::string& name);

// The vectors of a shard of `elements` elements, in the order of the file, which is that of the optimizer's table.
std::vector<SafetensorsTensor> ShardTensors(const optim::OptimizerRow& optimizer, int64_t elements);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_SHARD_FORMAT_H_
