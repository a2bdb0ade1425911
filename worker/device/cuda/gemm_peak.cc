// The ceiling of this GPU: the best rate of large products, run through the same interface as all others (matmul.h).
#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <tuple>

#include "base/status.h"
#include "base/units.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/cuda_status.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/device/cuda/matmul.h"

namespace zerofleet::device::cuda {
namespace {

constexpr char kOp[] = "MeasureGemmPeak";
// Products timed together, so that the gap of some microseconds before the first kernel is a thousandth of the time.
constexpr int kProductsARound = 8;

struct FreeDeviceMemory {
  void operator()(void* data) const { cudaFree(data); }
};
using DeviceMemoryPointer = std::unique_ptr<void, FreeDeviceMemory>;

absl::StatusOr<DeviceMemoryPointer> Allocate(int64_t bytes) {
  void* data = nullptr;
  ZF_RETURN_IF_ERROR(CudaStatus(cudaMalloc(&data, static_cast<size_t>(bytes)), kOp));
  return DeviceMemoryPointer(data);
}

// A product whose sides divide into whole tiles of 128 x 256, the same number on every multiprocessor. On an H200 with
// 132 of them it is 8448 x 4096 x 4096: 8 tiles each, and a third of a millisecond in bf16.
absl::StatusOr<MatmulArguments> Product(int device) {
  int multiprocessors = 0;
  ZF_RETURN_IF_ERROR(CudaStatus(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device), kOp));
  const int64_t side = RoundUp(int64_t{30} * multiprocessors, 512);
  return MatmulArguments{.m = int64_t{64} * multiprocessors, .n = side, .k = side};
}

absl::StatusOr<double> BestSeconds(Matmul& matmul, CudaStream& stream, const MatmulArguments& product, int rounds) {
  double best_seconds = 0;
  for (int round = 0; round <= rounds; ++round) {
    const std::shared_ptr<Event> start = stream.RecordTime();
    for (int i = 0; i < kProductsARound; ++i) matmul.Run(stream, kOp, product);
    const std::shared_ptr<Event> end = stream.RecordTime();
    ZF_RETURN_IF_ERROR(stream.Synchronize());
    const double seconds = end->SecondsSince(*start) / kProductsARound;
    // The first round pays for loading the kernel.
    if (round == 1 || (round > 1 && seconds < best_seconds)) best_seconds = seconds;
  }
  return best_seconds;
}

// Fills `to` with standard normals, through `chunk`, an fp32 buffer. On zeros a GPU would draw less power, and so run
// faster than in any training step.
void FillRandom(Ops& ops, Stream& stream, int64_t count, uint64_t stream_id, float* chunk, int64_t chunk_count,
                Tensor to) {
  for (int64_t first = 0; first < count; first += chunk_count) {
    const int64_t part = std::min(chunk_count, count - first);
    ops.FillNormal(stream,
                   {.count = part, .seed = 1, .stream_id = stream_id, .first = first, .deviation = 1.0f, .to = chunk});
    ops.Convert(stream, part, {chunk, DType::kF32}, to.Offset(first));
  }
}

absl::StatusOr<double> Measure(Ops& ops, Matmul& matmul, const Workspace& workspace, DType dtype, int rounds) {
  // On the calling thread another GPU, or none, may be current.
  cudaPointerAttributes place = {};
  ZF_RETURN_IF_ERROR(CudaStatus(cudaPointerGetAttributes(&place, workspace.library()), kOp));
  ZF_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(place.device), kOp));
  ZF_ASSIGN_OR_RETURN(MatmulArguments product, Product(place.device));
  const auto& [m, n, k] = std::tie(product.m, product.n, product.k);
  ZF_ASSIGN_OR_RETURN(const DeviceMemoryPointer a, Allocate(m * k * DTypeBytes(dtype)));
  ZF_ASSIGN_OR_RETURN(const DeviceMemoryPointer b, Allocate(n * k * DTypeBytes(dtype)));
  ZF_ASSIGN_OR_RETURN(const DeviceMemoryPointer d, Allocate(m * n * DTypeBytes(dtype)));
  product.a = {{a.get(), dtype}, k};
  product.b = {{b.get(), dtype}, k, /*transposed=*/true};
  product.d = {{d.get(), dtype}, n};

  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<CudaStream> stream, CudaStream::Create(place.device));
  // The workspace may still be in use on the stream that the ops ran on before.
  ZF_RETURN_IF_ERROR(CudaStatus(cudaDeviceSynchronize(), kOp));
  float* const chunk = workspace.partials<float>();
  constexpr int64_t kChunkCount = kPartialBytes / static_cast<int64_t>(sizeof(float));
  FillRandom(ops, *stream, m * k, 0, chunk, kChunkCount, product.a.data);
  FillRandom(ops, *stream, n * k, 1, chunk, kChunkCount, product.b.data);
  ZF_ASSIGN_OR_RETURN(const double seconds, BestSeconds(matmul, *stream, product, rounds));
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / seconds;
}

}  // namespace

double CudaOps::MeasureGemmPeak(DType dtype, int rounds) {
  return Measure(*this, *matmul_, workspace_, dtype, rounds).value_or(0);
}

}  // namespace zerofleet::device::cuda
