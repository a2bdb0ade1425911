// A cuDNN operation graph, and the plan that runs it on a GPU.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_CUDNN_PLAN_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_CUDNN_PLAN_H_

#include <cstdint>
#include <deque>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/cuda/cudnn_descriptor.h"

namespace zerofleet::device::cuda {

struct CudnnGraph {
  std::deque<CudnnDescriptor> parts;  // tensors and nodes, which `graph` refers to
  CudnnDescriptor graph;
};

// Memory for one of a graph's tensors: device memory, or the host's for a number passed by value.
struct CudnnBinding {
  int64_t tensor_id;
  const void* data;
};

class CudnnPlan {
 public:
  // The first of cuDNN's suggestions for `graph` that it can build for the handle's GPU, that needs at most
  // `workspace_limit` bytes and is not marked nondeterministic. The suggestions come from tables, not from timing, so a
  // machine always gets the same plan. Kernels may be compiled, which takes about half a second. kUnimplemented when
  // none qualifies; kResourceExhausted, before the next suggestion is tried, when there is no memory for one, since a
  // machine with more memory would choose it.
  static absl::StatusOr<CudnnPlan> Find(cudnnHandle_t handle, CudnnGraph graph, int64_t workspace_limit);

  int64_t workspace_bytes() const { return workspace_bytes_; }

  // Enqueues the plan on the handle's stream.
  absl::Status Run(cudnnHandle_t handle, std::span<const CudnnBinding> bindings, void* workspace) const;

 private:
  CudnnPlan(CudnnGraph graph, CudnnDescriptor config, CudnnDescriptor plan, int64_t workspace_bytes)
      : graph_(std::move(graph)),
        config_(std::move(config)),
        plan_(std::move(plan)),
        workspace_bytes_(workspace_bytes) {}

  CudnnGraph graph_;
  CudnnDescriptor config_, plan_;
  int64_t workspace_bytes_;
};

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_CUDNN_PLAN_H_
