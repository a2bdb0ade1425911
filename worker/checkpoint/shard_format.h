// The layout of a rank's file: safetensors with the three fp32 vectors of AdamW, equally long, one after another.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_SHARD_FORMAT_H_
#define ZEROFLEET_WORKER_CHECKPOINT_SHARD_FORMAT_H_

#include <array>
#include <cstdint>
#include <string>

#include "worker/checkpoint/safetensors.h"

namespace zerofleet {

inline constexpr int kShardVectors = 3;
inline constexpr std::array<const char*, kShardVectors> kShardVectorNames = {"master", "exp_avg", "exp_avg_sq"};

// Bytes read, hashed and written at a time.
inline constexpr int64_t kShardChunkBytes = int64_t{4} << 20;

// 7 -> "rank-00007.safetensors".
std::string ShardFileName(int rank);
bool IsShardFileName(const std::string& name);

// The vectors of a shard of `elements`, in file order.
std::vector<SafetensorsTensor> ShardTensors(int64_t elements);

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_CHECKPOINT_SHARD_FORMAT_H_
