// Ops on flat vectors (ops.h), such as ZeRO's shards, other than the optimizers'.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "base/check.h"
#include "base/units.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/dispatch.h"
#include "worker/device/cuda/map.cuh"
#include "worker/device/cuda/reduce.cuh"
#include "worker/device/element_math.h"

namespace zerofleet::device::cuda {
namespace {

// --- Convert.

void CopyBytes(Stream& stream, void* to, const void* from, int64_t bytes) {
  CudaStream& cuda_stream = static_cast<CudaStream&>(stream);
  cuda_stream.MakeCurrent();
  cuda_stream.Keep(
      CudaStatus(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, cuda_stream.handle()),
                 "Convert"));
}

// --- Accumulate.

template <typename T>
struct SumSource {
  TensorSource<T> from;
  TensorSource<float> accumulator;

  template <int kLanes>
  void Align(int64_t first) {
    from.template Align<kLanes>(first);
    accumulator.template Align<kLanes>(first);
  }
  template <int kLanes>
  __device__ void Load(int64_t i, float (&lanes)[kLanes]) const {
    float more[kLanes];
    accumulator.Load(i, lanes);
    from.Load(i, more);
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += more[lane];
  }
};

// --- Assign.

template <typename T>
struct AssignedSource {
  const StepControl* control;
  TensorSource<T> from;
  TensorSource<float> kept;

  template <int kLanes>
  void Align(int64_t first) {
    from.template Align<kLanes>(first);
    kept.template Align<kLanes>(first);
  }
  template <int kLanes>
  __device__ void Load(int64_t i, float (&lanes)[kLanes]) const {
    if (control->apply != 0) {
      from.Load(i, lanes);
    } else {
      kept.Load(i, lanes);
    }
  }
};

// --- Average.

struct AveragedSource {
  const StepControl* control;
  TensorSource<float> weights, average;

  template <int kLanes>
  void Align(int64_t first) {
    weights.template Align<kLanes>(first);
    average.template Align<kLanes>(first);
  }
  template <int kLanes>
  __device__ void Load(int64_t i, float (&lanes)[kLanes]) const {
    average.Load(i, lanes);
    if (control->apply == 0) return;
    float now[kLanes];
    weights.Load(i, now);
    const float share = control->factors.average_share;
    for (int lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = element::AveragedElement<element::FloatMath>(share, now[lane], lanes[lane]);
    }
  }
};

// --- Fill.

struct ConstantSource {
  float value;

  template <int kLanes>
  void Align(int64_t) {}
  template <int kLanes>
  __device__ void Load(int64_t, float (&lanes)[kLanes]) const {
    for (float& lane : lanes) lane = value;
  }
};

// --- SumSquares: each thread adds groups of kSquareLanes at a fixed stride, in double; blocks write partial sums, and
// one block adds those up. The order follows from `count`; alignment decides only how groups are loaded.

constexpr int kSquareThreads = 256, kSquareLanes = 8;
constexpr int64_t kMostSquareBlocks = 1024, kGroupsEach = 4;

template <typename T>
__global__ void __launch_bounds__(kSquareThreads)
    SumSquaresKernel(int64_t count, const T* x, bool vector, double* partials) {
  double sum = 0;
  const int64_t stride = int64_t{gridDim.x} * kSquareThreads * kSquareLanes;
  for (int64_t i = (int64_t{blockIdx.x} * kSquareThreads + threadIdx.x) * kSquareLanes; i < count; i += stride) {
    float lanes[kSquareLanes];
    LoadLanes(x + i, vector, count - i, lanes);
    for (const float lane : lanes) sum = fma(static_cast<double>(lane), static_cast<double>(lane), sum);
  }
  sum = BlockSum(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kMostSquareBlocks) SumPartialsKernel(int count, const double* partials, double* sum) {
  const int i = static_cast<int>(threadIdx.x);
  const double total = BlockSum(i < count ? partials[i] : 0.0);
  if (i == 0) *sum = total;
}

// --- SumSquaresExactly: each thread adds up blocks of kSquaresTogether. The sums are integers, so the order changes no
// bit.
//
// A thread's block is 128 bytes of its own, so the threads first bring a tile of all their blocks into shared memory,
// neighbouring threads from neighbouring addresses, 16 bytes each. A block takes one place more than it has elements,
// so that threads that read the same element of their blocks read from different banks. Each element is read once; at
// 4.8 TB/s that is 0.8 ms for 1e9 floats, and 16 KiB in flight for each of the eight blocks per multiprocessor.

constexpr int kExactThreads = 128, kExactLanes = 4;
constexpr int64_t kMostExactBlocks = 1024, kExactTilesEach = 4;
constexpr int64_t kExactTile = kExactThreads * kSquaresTogether;
constexpr int kExactLoads = static_cast<int>(kExactTile) / kExactThreads / kExactLanes;
constexpr int kSquares = static_cast<int>(kSquaresTogether), kExactStride = kSquares + 1;

// The blocks' sums, limb by limb, so that neighbouring threads read neighbouring addresses.
struct ExactPartials {
  int64_t* limbs;      // (kLimbs, blocks)
  uint32_t* infinite;  // (blocks)
  uint32_t* nan;       // (blocks)

  static ExactPartials In(int64_t* memory, int64_t blocks) {
    uint32_t* const marks = reinterpret_cast<uint32_t*>(memory + ExactSum::kLimbs * blocks);
    return {memory, marks, marks + blocks};
  }
};
static_assert(kMostExactBlocks * static_cast<int64_t>(sizeof(ExactSum)) <= kPartialBytes);

// Adds the threads' sums, limb by limb, into the first thread's.
__device__ inline void BlockSumExactly(ExactSum& sum) {
  sum.Normalize();  // so that the sum over a block's threads fits in a limb
  BlockSum(sum.limbs);
  uint32_t marks[2] = {0, 0};
  for (int sign = 0; sign < 2; ++sign) marks[sign] = BlockSum((sum.infinite >> sign) & 1u) != 0 ? 1u : 0u;
  sum.infinite = marks[0] | marks[1] << 1;
  sum.nan = BlockSum(sum.nan) != 0 ? 1 : 0;
  sum.Normalize();
}

// Loads this thread's share of a tile of which `count` elements are there, at least 1; the others are 0, whose squares
// change no sum. `vector` says that the tile is aligned.
__device__ inline void LoadExactTile(const float* x, int64_t count, bool vector,
                                     float (&lanes)[kExactLoads][kExactLanes]) {
  const int own = static_cast<int>(threadIdx.x) * kExactLanes;
  if (vector && count >= kExactTile) {
    for (int k = 0; k < kExactLoads; ++k) {
      Lanes<kExactLanes, float>::Load(x + own + k * kExactThreads * kExactLanes, lanes[k]);
    }
    return;
  }
  for (int k = 0; k < kExactLoads; ++k) {
    const int at = own + k * kExactThreads * kExactLanes;
    LoadLanes(x + at, vector, count - at, lanes[k]);
  }
}

__global__ void __launch_bounds__(kExactThreads)
    SumSquaresExactlyKernel(int64_t count, const float* x, int64_t first, bool vector, ExactPartials partials) {
  __shared__ float tile[kExactThreads * kExactStride];
  const int thread = static_cast<int>(threadIdx.x);
  ExactSum sum;
  if (blockIdx.x == 0 && thread == 0) sum.Add(BlockOfSquares(x, first));
  const int64_t step = int64_t{gridDim.x} * kExactTile;
  for (int64_t begin = first + blockIdx.x * kExactTile; begin < count; begin += step) {
    float lanes[kExactLoads][kExactLanes];
    LoadExactTile(x + begin, count - begin, vector, lanes);
    for (int k = 0; k < kExactLoads; ++k) {
      const int at = (thread + k * kExactThreads) * kExactLanes;
      float* const to = tile + at / kSquares * kExactStride + at % kSquares;
      for (int lane = 0; lane < kExactLanes; ++lane) to[lane] = lanes[k][lane];
    }
    SyncThreads();
    sum.Add(BlockOfSquares(tile + thread * kExactStride, kSquaresTogether));
    SyncThreads();  // the next tile takes this one's place
  }
  BlockSumExactly(sum);
  if (thread != 0) return;
  for (int limb = 0; limb < ExactSum::kLimbs; ++limb) {
    partials.limbs[limb * int64_t{gridDim.x} + blockIdx.x] = sum.limbs[limb];
  }
  partials.infinite[blockIdx.x] = sum.infinite;
  partials.nan[blockIdx.x] = sum.nan;
}

// Limbs of up to kMostExactBlocks / kExactThreads normalized sums add up far below 2^63.
__global__ void __launch_bounds__(kExactThreads)
    SumExactPartialsKernel(int blocks, ExactPartials partials, ExactSum* result) {
  ExactSum sum;
  for (int i = static_cast<int>(threadIdx.x); i < blocks; i += kExactThreads) {
    for (int limb = 0; limb < ExactSum::kLimbs; ++limb) sum.limbs[limb] += partials.limbs[limb * blocks + i];
    sum.infinite |= partials.infinite[i];
    sum.nan |= partials.nan[i];
  }
  BlockSumExactly(sum);
  if (threadIdx.x == 0) *result = sum;
}

}  // namespace

void CudaOps::Convert(Stream& stream, int64_t count, Tensor from, Tensor to) {
  constexpr const char* kOp = "Convert";
  if (count == 0) return;
  if (from.dtype == to.dtype) {
    if (from.data != to.data) CopyBytes(stream, to.data, from.data, count * DTypeBytes(to.dtype));
    return;
  }
  ZF_CHECK(from.data != to.data || DTypeBytes(to.dtype) <= DTypeBytes(from.dtype));
  const bool narrows_in_place = from.data == to.data && DTypeBytes(to.dtype) < DTypeBytes(from.dtype);
  WithTypes(from.dtype, to.dtype, [&](auto from_tag, auto to_tag) {
    using From = typename decltype(from_tag)::Type;
    using To = typename decltype(to_tag)::Type;
    const TensorSource<From> source{static_cast<const From*>(from.data)};
    To* const result = static_cast<To*>(to.data);
    if (!narrows_in_place) return LaunchMap<kMapLanes<From, To>>(stream, kOp, 0, count, source, result);
    // Elements go through the workspace as far as it holds them, so that the rest takes few launches.
    const int64_t first = std::min(count, kPartialBytes / static_cast<int64_t>(sizeof(To)));
    LaunchMap<kMapLanes<From, To>>(stream, kOp, 0, first, source, workspace_.partials<To>());
    CopyBytes(stream, result, workspace_.partials<To>(), first * static_cast<int64_t>(sizeof(To)));
    LaunchDoublingMap<kMapLanes<From, To>>(stream, kOp, first, count, source, result);
  });
}

void CudaOps::Accumulate(Stream& stream, int64_t count, Tensor from, float* accumulator) {
  WithType(from.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    LaunchMap<kMapLanes<T, float>>(stream, "Accumulate", 0, count,
                                   SumSource<T>{{static_cast<const T*>(from.data)}, {accumulator}}, accumulator);
  });
}

void CudaOps::Assign(Stream& stream, const AssignArguments& p) {
  WithType(p.from.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    LaunchMap<kMapLanes<T, float>>(stream, "Assign", 0, p.count,
                                   AssignedSource<T>{p.control, {static_cast<const T*>(p.from.data)}, {p.to}}, p.to);
  });
}

void CudaOps::Average(Stream& stream, const AverageArguments& p) {
  LaunchMap<kMapLanes<float, float>>(stream, "Average", 0, p.count, AveragedSource{p.control, {p.weights}, {p.average}},
                                     p.average);
}

void CudaOps::SumSquares(Stream& stream, int64_t count, Tensor x, double* sum) {
  constexpr const char* kOp = "SumSquares";
  const int64_t blocks = std::min(kMostSquareBlocks, CeilDivide(count, kSquareThreads * kSquareLanes * kGroupsEach));
  double* const partials = workspace_.partials<double>();
  WithType(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T* const data = static_cast<const T*>(x.data);
    Launch(stream, kOp, SumSquaresKernel<T>, dim3(static_cast<unsigned>(blocks)), dim3(kSquareThreads), 0, count, data,
           VectorAligned<kSquareLanes>(data), partials);
  });
  Launch(stream, kOp, SumPartialsKernel, dim3(1), dim3(kMostSquareBlocks), 0, static_cast<int>(blocks), partials, sum);
}

void CudaOps::SumSquaresExactly(Stream& stream, int64_t count, const float* x, int64_t place, ExactSum* sum) {
  constexpr const char* kOp = "SumSquaresExactly";
  const int64_t first = std::min(count, RoundUp(place, kSquaresTogether) - place);
  const int64_t blocks =
      std::clamp<int64_t>(CeilDivide(count - first, kExactTile * kExactTilesEach), 1, kMostExactBlocks);
  const ExactPartials partials = ExactPartials::In(workspace_.partials<int64_t>(), blocks);
  Launch(stream, kOp, SumSquaresExactlyKernel, dim3(static_cast<unsigned>(blocks)), dim3(kExactThreads), 0, count, x,
         first, VectorAligned<kExactLanes>(x + first), partials);
  Launch(stream, kOp, SumExactPartialsKernel, dim3(1), dim3(kExactThreads), 0, static_cast<int>(blocks), partials, sum);
}

void CudaOps::Zero(Stream& stream, void* data, int64_t bytes) {
  if (bytes == 0) return;
  CudaStream& cuda_stream = static_cast<CudaStream&>(stream);
  cuda_stream.MakeCurrent();
  cuda_stream.Keep(CudaStatus(cudaMemsetAsync(data, 0, static_cast<size_t>(bytes), cuda_stream.handle()), "Zero"));
}

void CudaOps::Fill(Stream& stream, int64_t count, float value, float* to) {
  LaunchMap<kMapLanes<float>>(stream, "Fill", 0, count, ConstantSource{value}, to);
}

}  // namespace zerofleet::device::cuda
