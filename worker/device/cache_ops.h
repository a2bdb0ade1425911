// Attention to tokens of earlier passes: generation computes each token's keys and values once and keeps them.
#ifndef ZEROFLEET_WORKER_DEVICE_CACHE_OPS_H_
#define ZEROFLEET_WORKER_DEVICE_CACHE_OPS_H_

#include <cstdint>

#include "worker/device/device.h"
#include "worker/device/op_arguments.h"
#include "worker/device/tensor.h"

namespace zerofleet::device {

struct CachedAttentionArguments {
  AttentionShape shape;  // batch 1; time: the new tokens
  int64_t past;          // tokens before the new ones, whose keys and values are in the cache
  int64_t capacity;      // tokens that the cache has room for, >= past + time
  Tensor qkv;            // (T,columns()): the new tokens' rows
  Tensor keys, values;   // (G,capacity,D) each; the new tokens' are written behind those of earlier tokens
  Tensor out;            // (T,H*D), overwritten; null: only keys and values are written
  void* scratch;         // AttentionScratchBytes of a shape whose time is `capacity`
};

class CacheOps {
 public:
  virtual ~CacheOps() = default;

  // out = attention of each new token to all tokens up to itself: what AttentionForward gives for the whole sequence,
  // up to rounding.
  virtual void CachedAttention(Stream&, const CachedAttentionArguments&) = 0;
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_CACHE_OPS_H_
