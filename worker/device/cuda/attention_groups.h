// Heads of queries that share keys and values, for kernels that want keys and values for each head: copies of them, and
// the sums of what the copies' gradients say (Ainslie et al. 2023, section 2).
//
// cuDNN's graphs take groups in the forward alone; in the backward its own front end has dk and dv of all heads written
// out and adds them up, as is done here. Per layer of Llama 3 8B (32 heads, 8 of keys and values, D 128) and token in
// bf16, the copies take 12 KB read and 24 KB written, in the forward and in the backward, and the sums as much again:
// 36 us of an H200's memory bandwidth for 1,024 tokens, against 190 us of attention's products at a context of 8,192.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_ATTENTION_GROUPS_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_ATTENTION_GROUPS_H_

#include <cstdint>

#include "worker/device/ops.h"

namespace zerofleet::device::cuda {

// `shape` with keys and values for each head of queries.
AttentionShape WithoutGroups(const AttentionShape& shape);

// copied(B,T,3HD) = qkv(B,T,(H+2G)D) with each head's own copy of its keys and values. One type.
void CopyGroups(Stream& stream, const char* op, const AttentionShape& shape, Tensor qkv, Tensor copied);

// dqkv(B,T,(H+2G)D) = dcopied(B,T,3HD), where what the heads of a group say of their keys and values is added up in
// fp32, in the order of the heads. One type.
void SumGroups(Stream& stream, const char* op, const AttentionShape& shape, Tensor dcopied, Tensor dqkv);

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_ATTENTION_GROUPS_H_
