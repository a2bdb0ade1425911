// Causal attention of one head in bf16, by the dot products of bf16_dots.h. attention.cc gives each task one call.
//
// A few rows of queries at a time: their scores stay in the first-level cache until they are probabilities. No score is
// computed that the softmax leaves out, but for what fills up a vector. Sums and softmax are fp32; the operands of a
// product are bf16, so probabilities and the scores' gradients are rounded, as FlashAttention rounds them on GPUs.
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_ATTENTION_BF16_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_ATTENTION_BF16_H_

#include <cstdint>

#include "worker/device/op_arguments.h"

namespace zerofleet::device::bf16_attention {

// Whether heads of this shape can be computed so here.
bool Takes(const AttentionShape& shape);

// What one thread needs, in bytes.
int64_t ScratchBytes(const AttentionShape& shape);

// `scratch` is aligned to a cache line.
void ForwardHead(const AttentionForwardArguments& arguments, int64_t sequence, int64_t head, void* scratch);
// All query heads that share the head `group` of keys and values, in their order.
void BackwardGroup(const AttentionBackwardArguments& arguments, int64_t sequence, int64_t group, void* scratch);

}  // namespace zerofleet::device::bf16_attention

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_ATTENTION_BF16_H_
