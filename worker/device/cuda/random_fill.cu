// FillNormal (ops.h) from random_normal.h's generator: one thread per block of four elements.
//
// The logarithm, sine and cosine are CUDA's, in double, and the result is rounded to fp32. It usually has the CPU's
// bits, though no specification promises that.
#include <algorithm>

#include "base/units.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/launch.cuh"
#include "worker/device/cuda/vector.cuh"
#include "worker/device/random_normal.h"

namespace zerofleet::device::cuda {
namespace {

constexpr int kFillThreads = 256;
constexpr int kBlockElements = 4;

struct Range {
  uint64_t seed, stream_id;
  int64_t first, count;
};

// `vector` says that the range's whole blocks start at addresses aligned for vector stores.
__global__ void __launch_bounds__(kFillThreads) FillNormalKernel(Range range, float deviation, bool vector, float* to) {
  const int64_t item = int64_t{blockIdx.x} * kFillThreads + threadIdx.x;
  const int64_t block = range.first / kBlockElements + item;
  const int64_t begin = block * kBlockElements - range.first;  // may be before the range
  if (begin >= range.count) return;
  const FourNormals normals =
      NormalsOfBlock(range.seed, range.stream_id, static_cast<uint64_t>(block), static_cast<double>(deviation));
  if (begin >= 0) return StoreLanes(normals.value, vector, range.count - begin, to + begin);
  for (int64_t i = 0; i < std::min(begin + kBlockElements, range.count); ++i) to[i] = normals.value[i - begin];
}

}  // namespace

void CudaOps::FillNormal(Stream& stream, const FillNormalArguments& p) {
  if (p.count == 0) return;
  const int64_t blocks = CeilDivide(p.first + p.count, kBlockElements) - p.first / kBlockElements;
  const int64_t first_whole = RoundUp(p.first, kBlockElements) - p.first;
  const bool vector = VectorAligned<kBlockElements>(p.to + first_whole);
  Launch(stream, "FillNormal", FillNormalKernel, dim3(static_cast<unsigned>(CeilDivide(blocks, kFillThreads))),
         dim3(kFillThreads), 0, Range{p.seed, p.stream_id, p.first, p.count}, p.deviation, vector, p.to);
}

}  // namespace zerofleet::device::cuda
