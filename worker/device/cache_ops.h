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
  int64_t past;          // tokens before them, whose keys and values are in the cache
  int64_t capacity;      // tokens that it has room for, >= past + time
  Tensor qkv;            // (T,columns()), of the new tokens
  Tensor keys, values;   // (G,capacity,D) each: those of the new tokens are written behind the others
  Tensor out;            // (T,H*D), overwritten; null: keys and values are written, and that is all
  void* scratch;         // AttentionScratchBytes of a shape whose time is `capacity`
};

class CacheOps {
 public:
  virtual ~CacheOps() = default;

  // out = attention of each new token to all tokens up to itself, as AttentionForward gives it for the whole sequence
  // but for rounding.
  virtual void CachedAttention(Stream&, const CachedAttentionArguments&) = 0;
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_CACHE_OPS_H_
