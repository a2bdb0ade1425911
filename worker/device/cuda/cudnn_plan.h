// A cuDNN operation graph, the GPU that it is for, and the plan that runs it there.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_CUDNN_PLAN_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_CUDNN_PLAN_H_

#include <cstdint>
#include <deque>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/cuda/cudnn_descriptor.h"

namespace zerofleet::device::cuda {

struct CudnnGraph {
  std::deque<CudnnDescriptor> parts;  // tensors and nodes, which `graph` refers to
  CudnnDescriptor graph;
};

// The GPU that a plan is for.
class CudnnGpu {
 public:
  // The handle's GPU.
  explicit CudnnGpu(cudnnHandle_t handle) : handle_(handle) {}
  // A GPU that need not be in this machine, described by cuDNN's JSON (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION), for
  // a graph without a handle. A plan for it can be made, with all that this may refuse, and not be run. Internal where
  // cuDNN does not understand the description.
  static absl::StatusOr<CudnnGpu> Described(std::string_view json);

  // Sets the GPU in a descriptor that is being made: the heuristics of a graph, or a plan.
  void SetInHeuristics(CudnnDescriptor& heuristics) const;
  void SetInPlan(CudnnDescriptor& plan) const;

 private:
  cudnnHandle_t handle_ = nullptr;
  CudnnDescriptor properties_;  // empty where there is a handle
};

// Memory for one of a graph's tensors: device memory, or the host's for a number passed by value.
struct CudnnBinding {
  int64_t tensor_id;
  const void* data;
};

class CudnnPlan {
 public:
  // The first of cuDNN's suggestions for `graph` that it can build for `gpu`, that needs at most
  // `workspace_limit` bytes and is not marked nondeterministic. The suggestions come from tables, not from timing, so a
  // machine always gets the same plan. Kernels may be compiled, which takes about half a second. kUnimplemented when
  // none qualifies; kResourceExhausted, before the next suggestion is tried, when there is no memory for one, since a
  // machine with more memory would choose it.
  static absl::StatusOr<CudnnPlan> Find(const CudnnGpu& gpu, CudnnGraph graph, int64_t workspace_limit);

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
