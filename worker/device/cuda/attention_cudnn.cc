// See attention_cudnn.h. attention_graph.h makes the graphs.
//
// The deterministic backward keeps the gradient of the scores, T x T per head, in the workspace until dq is computed
// from it. So the batch is cut into slices whose scores fit: whole sequences, or, where the scores of one sequence do
// not fit, some heads of one sequence. A slice's size follows from the shape and the workspace alone. For gpt2-1558m
// (25 heads, context 1024) a sequence takes 50 MiB.
#include "worker/device/cuda/attention_cudnn.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "base/units.h"
#include "worker/device/cuda/attention_graph.h"
#include "worker/device/cuda/cuda_status.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/device/cuda/cudnn_plan.h"
#include "worker/device/cuda/libraries/vendor_library.h"

namespace zerofleet::device::cuda {
namespace {

constexpr int64_t kLargestHeadSize = 256;
// Up to 9.15.0 the backward accesses memory beyond the tensors if T is not a multiple of 128.
constexpr size_t kOldestCudnn = 91600;
// Workspace that cuDNN's backward engines need besides the scores (256 bytes: tests/gpu_attention.tsv), with room to
// spare.
constexpr int64_t kSpareBytes = 64 << 10;

enum class Direction { kForward, kBackward };

// The bytes of one head's scores as the engines store them: 2 per element, with both sides rounded up to the engines'
// tiles.
int64_t ScoresBytes(int64_t time) { return RoundUp(time, 64) * RoundUp(time, 128) * 2; }

// The size of the pieces in the most even cut of `count` into pieces of at most `most`; the last may be smaller.
int64_t EvenPiece(int64_t count, int64_t most) { return CeilDivide(count, CeilDivide(count, most)); }

// A part of a batch, and its first sequence and head.
struct Part {
  AttentionShape shape;
  int64_t sequence, head;
};

// Calls `each` for the parts of `whole`, in order, until one fails.
template <typename Each>
absl::Status ForEachPart(const AttentionShape& whole, const BackwardSlice& slice, Each each) {
  for (int64_t sequence = 0; sequence < whole.batch; sequence += slice.sequences) {
    for (int64_t head = 0; head < whole.heads; head += slice.heads) {
      Part part{whole, sequence, head};
      part.shape.batch = std::min(slice.sequences, whole.batch - sequence);
      part.shape.heads = std::min(slice.heads, whole.heads - head);
      ZF_RETURN_IF_ERROR(each(part));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckShape(const AttentionShape& shape, DType dtype, Direction direction, int compute_capability_major) {
  if (dtype == DType::kF32) return absl::UnimplementedError("cuDNN's fused attention does not take fp32");
  if (shape.head_size % 8 != 0 || shape.head_size > kLargestHeadSize) {
    return absl::UnimplementedError(
        absl::StrCat("cuDNN's fused attention takes head sizes that are multiples of 8 up to ", kLargestHeadSize,
                     ", not ", shape.head_size));
  }
  // cuDNN's release notes list this shape as not supported, though its heuristics offer a plan.
  if (direction == Direction::kBackward && shape.time == 1) {
    return absl::UnimplementedError("cuDNN's fused attention has no backward for sequences of 1");
  }
  // On these two architectures the graph's form is known to give the same bits each time (attention_graph.h).
  if (direction == Direction::kBackward && compute_capability_major != 8 && compute_capability_major != 9) {
    return absl::UnimplementedError(
        absl::StrCat("cuDNN's fused backward is not known to be deterministic on compute capability ",
                     compute_capability_major, ".x"));
  }
  return absl::OkStatus();
}

class CudnnAttention : public FusedAttention {
 public:
  CudnnAttention(cudnnHandle_t handle, int device, int compute_capability_major, void* workspace,
                 int64_t workspace_bytes)
      : handle_(handle),
        device_(device),
        compute_capability_major_(compute_capability_major),
        workspace_(workspace),
        workspace_bytes_(workspace_bytes) {}
  ~CudnnAttention() override {
    plans_.clear();
    cudnnDestroy(handle_);
  }

  absl::Status ForwardSupport(const AttentionShape& shape, DType dtype) override {
    ZF_CHECK(shape.kv_heads == shape.heads);
    return PlanFor(Direction::kForward, shape, shape.heads, dtype).status();
  }
  absl::Status BackwardSupport(const AttentionShape& shape, DType dtype) override;
  void Forward(Stream& stream, const AttentionShape& shape, Tensor qkv, Tensor out, float* logsumexp) override;
  void Backward(Stream& stream, const AttentionShape& shape, Tensor qkv, Tensor out, const float* logsumexp,
                Tensor dout, Tensor dqkv, float* delta) override;

 private:
  // Direction, sequences, heads, heads per row in memory, T, D, type.
  using Key = std::tuple<Direction, int64_t, int64_t, int64_t, int64_t, int64_t, DType>;

  // Makes the plan for `part` on the first request, and keeps the plan or the reason why there is none.
  const absl::StatusOr<CudnnPlan>& PlanFor(Direction direction, const AttentionShape& part, int64_t row_heads,
                                           DType dtype);
  absl::StatusOr<CudnnPlan> MakePlan(Direction direction, const AttentionShape& part, int64_t row_heads, DType dtype);
  absl::Status Use(CudaStream& stream);

  const cudnnHandle_t handle_;
  const int device_, compute_capability_major_;
  void* const workspace_;
  const int64_t workspace_bytes_;
  std::map<Key, absl::StatusOr<CudnnPlan>> plans_;
};

absl::StatusOr<CudnnPlan> CudnnAttention::MakePlan(Direction direction, const AttentionShape& part, int64_t row_heads,
                                                   DType dtype) {
  ZF_RETURN_IF_ERROR(CheckShape(part, dtype, direction, compute_capability_major_));
  // The calling thread may not have chosen a GPU yet.
  ZF_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(device_), "cudaSetDevice"));
  ZF_ASSIGN_OR_RETURN(CudnnGraph graph, direction == Direction::kForward
                                            ? AttentionForwardGraph(handle_, part, row_heads, dtype)
                                            : AttentionBackwardGraph(handle_, part, row_heads, dtype));
  return CudnnPlan::Find(CudnnGpu(handle_), std::move(graph), workspace_bytes_);
}

const absl::StatusOr<CudnnPlan>& CudnnAttention::PlanFor(Direction direction, const AttentionShape& part,
                                                         int64_t row_heads, DType dtype) {
  const Key key(direction, part.batch, part.heads, row_heads, part.time, part.head_size, dtype);
  const auto known = plans_.find(key);
  if (known != plans_.end()) return known->second;
  return plans_.emplace(key, MakePlan(direction, part, row_heads, dtype)).first->second;
}

absl::Status CudnnAttention::BackwardSupport(const AttentionShape& shape, DType dtype) {
  ZF_CHECK(shape.kv_heads == shape.heads);
  const std::optional<BackwardSlice> slice = SliceBackward(shape, workspace_bytes_);
  if (!slice.has_value()) {
    return absl::UnimplementedError(absl::StrCat("the scores of one head of ", shape.time, " positions do not fit in ",
                                                 HumanBytes(workspace_bytes_)));
  }
  return ForEachPart(shape, *slice, [&](const Part& part) {
    return PlanFor(Direction::kBackward, part.shape, shape.heads, dtype).status();
  });
}

// Makes cuDNN enqueue on `stream` from now on.
absl::Status CudnnAttention::Use(CudaStream& stream) {
  stream.MakeCurrent();
  return CudnnStatus(cudnnSetStream(handle_, stream.handle()), "cudnnSetStream");
}

float ScaleOf(const AttentionShape& shape) { return 1.0f / std::sqrt(static_cast<float>(shape.head_size)); }

bool Aligned(const Tensor& tensor) { return reinterpret_cast<uintptr_t>(tensor.data) % 16 == 0; }

constexpr float kNothing = -std::numeric_limits<float>::infinity(), kUnity = 1.0f;

void CudnnAttention::Forward(Stream& stream, const AttentionShape& shape, Tensor qkv, Tensor out, float* logsumexp) {
  ZF_CHECK(Aligned(qkv));
  ZF_CHECK(Aligned(out));
  CudaStream& cuda_stream = static_cast<CudaStream&>(stream);
  const absl::StatusOr<CudnnPlan>& plan = PlanFor(Direction::kForward, shape, shape.heads, qkv.dtype);
  ZF_CHECK(plan.ok());
  const int64_t width = shape.heads * shape.head_size;
  const float scale = ScaleOf(shape);
  const std::array<CudnnBinding, 7> bindings = {{{kQueries, qkv.data},
                                                 {kKeys, qkv.Offset(width).data},
                                                 {kValues, qkv.Offset(2 * width).data},
                                                 {kOut, out.data},
                                                 {kLogsumexp, logsumexp},
                                                 {kScale, &scale},
                                                 {kMinusInfinity, &kNothing}}};
  absl::Status status = Use(cuda_stream);
  if (status.ok()) status = plan->Run(handle_, bindings, workspace_);
  cuda_stream.Keep(Annotate(status, "AttentionForward"));
}

void CudnnAttention::Backward(Stream& stream, const AttentionShape& shape, Tensor qkv, Tensor out,
                              const float* logsumexp, Tensor dout, Tensor dqkv, float* delta) {
  for (const Tensor& tensor : {qkv, out, dout, dqkv}) ZF_CHECK(Aligned(tensor));
  CudaStream& cuda_stream = static_cast<CudaStream&>(stream);
  const std::optional<BackwardSlice> slice = SliceBackward(shape, workspace_bytes_);
  ZF_CHECK(slice.has_value());
  const int64_t width = shape.heads * shape.head_size;
  const float scale = ScaleOf(shape);
  absl::Status status = Use(cuda_stream);
  if (status.ok()) {
    status = ForEachPart(shape, *slice, [&](const Part& part) {
      const absl::StatusOr<CudnnPlan>& plan = PlanFor(Direction::kBackward, part.shape, shape.heads, qkv.dtype);
      ZF_CHECK(plan.ok());
      const int64_t row = part.sequence * shape.time, column = part.head * shape.head_size;
      const int64_t at = row * width + column, qkv_at = row * 3 * width + column;
      const int64_t rows_at = (part.sequence * shape.heads + part.head) * shape.time;
      const std::array<CudnnBinding, 13> bindings = {{{kQueries, qkv.Offset(qkv_at).data},
                                                      {kKeys, qkv.Offset(qkv_at + width).data},
                                                      {kValues, qkv.Offset(qkv_at + 2 * width).data},
                                                      {kOut, out.Offset(at).data},
                                                      {kLogsumexp, logsumexp + rows_at},
                                                      {kDout, dout.Offset(at).data},
                                                      {kDqueries, dqkv.Offset(qkv_at).data},
                                                      {kDkeys, dqkv.Offset(qkv_at + width).data},
                                                      {kDvalues, dqkv.Offset(qkv_at + 2 * width).data},
                                                      {kDelta, delta + rows_at},
                                                      {kScale, &scale},
                                                      {kMinusInfinity, &kNothing},
                                                      {kOne, &kUnity}}};
      return plan->Run(handle_, bindings, workspace_);
    });
  }
  cuda_stream.Keep(Annotate(status, "AttentionBackward"));
}

}  // namespace

std::optional<BackwardSlice> SliceBackward(const AttentionShape& shape, int64_t workspace_bytes) {
  const int64_t heads = (workspace_bytes - kSpareBytes) / ScoresBytes(shape.time);
  if (heads < 1) return std::nullopt;
  if (heads < shape.heads) return BackwardSlice{1, EvenPiece(shape.heads, heads)};
  return BackwardSlice{EvenPiece(shape.batch, heads / shape.heads), shape.heads};
}

absl::StatusOr<std::unique_ptr<FusedAttention>> FusedAttention::Create(void* workspace, int64_t workspace_bytes) {
  ZF_RETURN_IF_ERROR(OpenCudnn());
  if (cudnnGetVersion() < kOldestCudnn) {
    return absl::UnimplementedError(
        absl::StrCat("fused attention needs cuDNN ", kOldestCudnn, " or later, and this is ", cudnnGetVersion()));
  }
  int device = 0, major = 0;
  ZF_RETURN_IF_ERROR(CudaStatus(cudaGetDevice(&device), "cudaGetDevice"));
  ZF_RETURN_IF_ERROR(
      CudaStatus(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute"));
  cudnnHandle_t handle = nullptr;
  ZF_RETURN_IF_ERROR(CudnnStatus(cudnnCreate(&handle), "cudnnCreate"));
  return std::make_unique<CudnnAttention>(handle, device, major, workspace, workspace_bytes);
}

int64_t CudnnVersion() { return static_cast<int64_t>(cudnnGetVersion()); }

}  // namespace zerofleet::device::cuda
