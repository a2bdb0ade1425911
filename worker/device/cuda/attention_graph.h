// Causal attention expressed as cuDNN operation graphs: the patterns that its fused attention engines recognise.
//
// Forward:  scores = q k^T * scale; masked above the diagonal; softmax by max, exp, sum; logsumexp = max + log(sum);
//           out = p v.
// Backward: delta = rowsum(dout * out); p = exp(scores - logsumexp); dv = p^T dout;
//           ds = (dout v^T - delta) * p * scale; dk = ds^T q; dq = ds k.
// Virtual tensors, which are never stored, connect the nodes. q, k and v are read in place from the packed qkv (B,T,3C)
// by strides, and dq, dk and dv are written likewise. Making a graph needs neither a handle nor a GPU.
//
// Determinism. In cuDNN's fastest backward, blocks accumulate dq over key tiles in an fp32 tensor that a last node
// converts; the order of the blocks, and with it the bits, depends on timing. In the form used here the last product
// writes dq itself: the engine then stores ds (2 * B * H * T * T bytes of workspace, T rounded up to tiles) and
// multiplies it by k at the end. That is the form NVIDIA's own front end writes, and documents as bitwise repeatable,
// when asked for a deterministic algorithm on Ampere and Hopper. cuDNN's note "nondeterministic" does not tell the two
// apart: in 9.19 neither has it. On Blackwell the front end also pins an engine and its knobs; callers use only the two
// architectures where it does not.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_ATTENTION_GRAPH_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_ATTENTION_GRAPH_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/device/cuda/cudnn_plan.h"
#include "worker/device/ops.h"

namespace zerofleet::device::cuda {

// The tensors that a run of a graph binds to memory.
enum AttentionTensor : int64_t {
  kQueries = 1,
  kKeys,
  kValues,
  kOut,
  kLogsumexp,
  kDout,
  kDqueries,
  kDkeys,
  kDvalues,
  kDelta,  // (B,H,T) fp32, the caller's scratch
  // fp32 numbers in host memory.
  kScale,
  kMinusInfinity,
  kOne,
  // From here on: tensors that are never stored.
  kFirstVirtual,
};

// The alignment in bytes of any head's row in a (B,H,T) fp32 tensor, where rows are `time` numbers apart. cuDNN offers
// fewer engines below 16.
int64_t RowsAlignment(int64_t time);

// Graphs for `part`, some sequences of a batch or some heads of one sequence, in tensors with `row_heads` heads a row.
// `dtype` is bf16 or fp16. kUnimplemented, or cuDNN's error, where it refuses a node. Without a handle a graph can be
// made but not run.
absl::StatusOr<CudnnGraph> AttentionForwardGraph(cudnnHandle_t handle, const AttentionShape& part, int64_t row_heads,
                                                 DType dtype);
absl::StatusOr<CudnnGraph> AttentionBackwardGraph(cudnnHandle_t handle, const AttentionShape& part, int64_t row_heads,
                                                  DType dtype);

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_ATTENTION_GRAPH_H_
