// Prints how the installed cuDNN would run the models' attention on GPUs that need not be here.
//
// cuDNN makes plans for a described GPU (CudnnGpu::Described). The graphs, the choice of a plan, the cut of the
// backward and the workspace are those of training (attention_cudnn.cc). The output has the kernels of each plan, the
// workspace that cuDNN states, or why there is no plan; no kernel runs. tests/gpu_attention_check.py compares it with a
// table. To add a GPU or a shape, add a row here and renew the table.
#include <array>
#include <cstdio>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "tests/gpu/recording_driver.h"
#include "worker/device/cuda/attention_cudnn.h"
#include "worker/device/cuda/attention_graph.h"
#include "worker/device/cuda/libraries/vendor_library.h"
#include "worker/device/cuda/workspace.h"

namespace zerofleet::device::cuda {
namespace {

// What distinguishes GPUs in cuDNN's own form of their properties, as the CUDA programming guide and NVIDIA's
// datasheets state it.
struct DescribedGpu {
  const char* name;
  int compute_capability;  // 900 for 9.0
  int multiprocessors;
  int shared_bytes_per_block;  // the most that a kernel can ask for
  int64_t memory_bytes, l2_bytes;
  int clock_khz, memory_clock_khz;
};
constexpr std::array kGpus = {
    DescribedGpu{"A100", 800, 108, 166912, int64_t{80} << 30, int64_t{40} << 20, 1410000, 1593000},
    DescribedGpu{"H100", 900, 132, 232448, int64_t{80} << 30, int64_t{50} << 20, 1980000, 2619000},
};

// Each head has keys and values of its own: where a model shares them, cuDNN gets copies (attention_groups.h).
struct Batch {
  const char* model;
  AttentionShape shape;
  DType dtype;
};
constexpr std::array kBatches = {
    Batch{"gpt2", {16, 1024, 12, 64}, DType::kBF16},        Batch{"gpt2", {16, 1024, 12, 64}, DType::kF16},
    Batch{"gpt2-1558m", {16, 1024, 25, 64}, DType::kBF16},  Batch{"llama-3-8b", {2, 2048, 32, 128}, DType::kBF16},
    Batch{"llama-3-8b", {1, 8192, 32, 128}, DType::kBF16},  Batch{"odd length", {2, 1023, 12, 64}, DType::kBF16},
    Batch{"head size 80", {4, 1024, 20, 80}, DType::kBF16}, Batch{"head size 256", {2, 2048, 8, 256}, DType::kBF16},
};

std::string Json(const DescribedGpu& gpu) {
  return absl::StrCat(
      R"({"deviceVer": )", gpu.compute_capability, R"(, "multiProcessorCount": )", gpu.multiprocessors,
      R"(, "maxSharedMemoryPerBlockOptin": )", gpu.shared_bytes_per_block, R"(, "totalGlobalMem": )", gpu.memory_bytes,
      R"(, "l2CacheSize": )", gpu.l2_bytes, R"(, "smClockRateKHz": )", gpu.clock_khz, R"(, "memClockRateKHz": )",
      gpu.memory_clock_khz, R"(, "deviceName": ")", gpu.name,
      // What all of them have in common.
      R"(", "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "reservedSharedMemoryPerBlock": 1024, )"
      R"("regsPerBlock": 65536, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, )"
      R"("maxThreadsPerSM": 2048, "maxBlockSize": [1024, 1024, 64], "maxGridSize": [2147483647, 65535, 65535], )"
      R"("supportCoopLaunch": 1, "isTccDriver": 0, "pciDeviceId": 0, "cudaDeviceId": 0, "driverVer": 13000})");
}

void Print(const DescribedGpu& gpu, const Batch& batch, const char* direction, const AttentionShape& part,
           const absl::StatusOr<CudnnPlan>& plan) {
  const std::string answer = plan.ok()
                                 ? absl::StrCat(absl::StrJoin(TakeKernels(), " "), "\t", plan->workspace_bytes(), "\t-")
                                 : absl::StrCat("-\t-\t", plan.status().message());
  std::puts(absl::StrJoin(std::tuple(gpu.name, batch.model, direction, DTypeName(batch.dtype), part.batch, part.heads,
                                     part.time, part.head_size, answer),
                          "\t")
                .c_str());
}

absl::Status PrintPlans(const DescribedGpu& described, const Batch& batch) {
  ZF_ASSIGN_OR_RETURN(const CudnnGpu gpu, CudnnGpu::Described(Json(described)));
  const auto plan = [&](absl::StatusOr<CudnnGraph> graph) -> absl::StatusOr<CudnnPlan> {
    ZF_RETURN_IF_ERROR(graph.status());
    TakeKernels();
    return CudnnPlan::Find(gpu, std::move(graph).value(), kLibraryBytes);
  };
  const AttentionShape& whole = batch.shape;
  Print(described, batch, "forward", whole, plan(AttentionForwardGraph(nullptr, whole, whole.heads, batch.dtype)));
  AttentionShape part = whole;
  if (const auto slice = SliceBackward(whole, kLibraryBytes); slice.has_value()) {
    part.batch = slice->sequences;
    part.heads = slice->heads;
  }
  Print(described, batch, "backward", part, plan(AttentionBackwardGraph(nullptr, part, whole.heads, batch.dtype)));
  return absl::OkStatus();
}

absl::Status Run() {
  ZF_RETURN_IF_ERROR(OpenCudnn());
  std::printf("# cuDNN %d\n", static_cast<int>(CudnnVersion()));
  for (const DescribedGpu& gpu : kGpus) {
    for (const Batch& batch : kBatches) ZF_RETURN_IF_ERROR(PrintPlans(gpu, batch));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace zerofleet::device::cuda

int main() {
  const absl::Status status = zerofleet::device::cuda::Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}
