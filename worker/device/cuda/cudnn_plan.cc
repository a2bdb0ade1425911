// See cudnn_plan.h.
#include "worker/device/cuda/cudnn_plan.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace zerofleet::device::cuda {
namespace {

// cuDNN's suggestions for a graph in one heuristic mode, best first: only those that it considers able to run.
absl::StatusOr<std::vector<CudnnDescriptor>> Suggestions(const CudnnGpu& gpu, const CudnnGraph& graph,
                                                         cudnnBackendHeurMode_t mode) {
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "cuDNN heuristics");
  heuristics.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.graph)
      .Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  gpu.SetInHeuristics(heuristics);
  ZF_RETURN_IF_ERROR(heuristics.Finalize());
  ZF_ASSIGN_OR_RETURN(const int64_t most,
                      heuristics.Get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr));
  // Descriptors are created empty and the library fills them in; those that it does not need stay empty.
  std::vector<CudnnDescriptor> configs;
  std::vector<cudnnBackendDescriptor_t> places;
  for (int64_t i = 0; i < most; ++i) {
    places.push_back(configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "cuDNN engine configuration").get());
  }
  ZF_ASSIGN_OR_RETURN(const int64_t count, heuristics.Get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                          most, places.data()));
  configs.resize(std::min(count, most));
  return configs;
}

absl::Status CheckDeterministic(const CudnnDescriptor& config) {
  CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR, "cuDNN engine");
  cudnnBackendDescriptor_t place = engine.get();
  ZF_RETURN_IF_ERROR(config.Get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &place));
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes;
  ZF_ASSIGN_OR_RETURN(const int64_t count, engine.Get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                                      std::ssize(notes), notes.data()));
  const auto end = notes.begin() + std::min<int64_t>(count, std::ssize(notes));
  if (std::find(notes.begin(), end, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) == end) return absl::OkStatus();
  return absl::UnimplementedError("cuDNN marks the engine nondeterministic");
}

struct Built {
  CudnnDescriptor plan;
  int64_t workspace_bytes;
};

absl::StatusOr<Built> Build(const CudnnGpu& gpu, const CudnnDescriptor& config, int64_t workspace_limit) {
  ZF_RETURN_IF_ERROR(CheckDeterministic(config));
  CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "cuDNN plan");
  gpu.SetInPlan(plan);
  plan.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  ZF_RETURN_IF_ERROR(plan.Finalize());
  int64_t bytes = 0;
  ZF_RETURN_IF_ERROR(plan.Get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes));
  if (bytes > workspace_limit) {
    return absl::UnimplementedError(
        absl::StrCat("the plan needs ", bytes, " bytes of workspace and there are ", workspace_limit));
  }
  return Built{std::move(plan), bytes};
}

}  // namespace

absl::StatusOr<CudnnGpu> CudnnGpu::Described(std::string_view json) {
  CudnnGpu gpu(nullptr);
  gpu.properties_ = CudnnDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "cuDNN's description of a GPU");
  gpu.properties_.Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, std::ssize(json), json.data());
  ZF_RETURN_IF_ERROR(gpu.properties_.Finalize());
  return gpu;
}

void CudnnGpu::SetInHeuristics(CudnnDescriptor& heuristics) const {
  // A handle is the graph's already.
  if (handle_ == nullptr) heuristics.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, properties_);
}

void CudnnGpu::SetInPlan(CudnnDescriptor& plan) const {
  if (handle_ == nullptr) {
    plan.Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, properties_);
  } else {
    plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle_);
  }
}

absl::StatusOr<CudnnPlan> CudnnPlan::Find(const CudnnGpu& gpu, CudnnGraph graph, int64_t workspace_limit) {
  absl::Status first_refusal;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    absl::StatusOr<std::vector<CudnnDescriptor>> configs = Suggestions(gpu, graph, mode);
    if (absl::IsResourceExhausted(configs.status())) return configs.status();
    first_refusal.Update(configs.status());
    if (!configs.ok()) continue;
    for (CudnnDescriptor& config : *configs) {
      absl::StatusOr<Built> built = Build(gpu, config, workspace_limit);
      if (built.ok()) {
        return CudnnPlan(std::move(graph), std::move(config), std::move(built->plan), built->workspace_bytes);
      }
      if (absl::IsResourceExhausted(built.status())) return built.status();
      first_refusal.Update(built.status());
    }
  }
  return absl::UnimplementedError(
      absl::StrCat("cuDNN has no plan: ", first_refusal.ok() ? "no engine takes the graph" : first_refusal.message()));
}

absl::Status CudnnPlan::Run(cudnnHandle_t handle, std::span<const CudnnBinding> bindings, void* workspace) const {
  std::vector<int64_t> ids;
  std::vector<const void*> pointers;
  for (const CudnnBinding& binding : bindings) {
    ids.push_back(binding.tensor_id);
    pointers.push_back(binding.data);
  }
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "cuDNN variant pack");
  pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const int64_t>(ids))
      .Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, std::ssize(pointers), pointers.data())
      .Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  ZF_RETURN_IF_ERROR(pack.Finalize());
  return CudnnStatus(cudnnBackendExecute(handle, plan_.get(), pack.get()), "cudnnBackendExecute");
}

}  // namespace zerofleet::device::cuda
