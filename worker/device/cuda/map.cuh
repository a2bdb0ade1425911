// One value per element of a flat vector: to[i] = source(i), converted to the vector's type.
//
// A source is a struct, passed by value, with
//   template <int kLanes> __device__ void Load(int64_t i, float (&lanes)[kLanes]) const;  // elements i and following
//   template <int kLanes> void Align(int64_t first);  // on the host: groups will start at first, first + kLanes, ...
// Its element i depends on i alone, so that a vector cut anywhere gives the same bits. To add an element-wise op, write
// its source and call LaunchMap.
//
// Estimate: 4.8 TB/s (an H200's) at 700 ns of latency require 25 KiB in flight in each of 132 multiprocessors; 2048
// threads with 16 bytes each have 32 KiB. 550e9 elements per second at 6 bytes each leave 50 instructions per element.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_MAP_CUH_
#define ZEROFLEET_WORKER_DEVICE_CUDA_MAP_CUH_

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/units.h"
#include "worker/device/cuda/launch.cuh"
#include "worker/device/cuda/vector.cuh"

namespace zerofleet::device::cuda {

inline constexpr int kMapThreads = 256;

// Elements per thread at a time: 16 bytes of the widest of the types.
template <typename... T>
inline constexpr int kMapLanes = std::max({sizeof(T)...}) == 2 ? 8 : 4;

// How `count` elements are divided into items, one per thread: `vectors` groups of kLanes, the first of which starts at
// an aligned address, and the single elements before and after them.
struct Split {
  int64_t count = 0, head = 0, vectors = 0;

  template <int kLanes, typename T>
  static Split Of(const T* data, int64_t count) {
    constexpr uintptr_t kAlignment = kVectorAlignment<kLanes, T>;
    const uintptr_t past = reinterpret_cast<uintptr_t>(data) % kAlignment;
    Split split{.count = count};
    split.head = std::min<int64_t>(count, static_cast<int64_t>((kAlignment - past) % kAlignment / sizeof(T)));
    split.vectors = (count - split.head) / kLanes;
    return split;
  }

  template <int kLanes>
  int64_t Items() const {
    return count - vectors * (kLanes - 1);
  }

  // Calls body(i, N) for the elements i to i + N - 1 of `item`, where N is a constant, kLanes or 1.
  template <int kLanes, typename Body>
  __device__ void ForItem(int64_t item, const Body& body) const {
    if (item < vectors) return body(head + item * kLanes, std::integral_constant<int, kLanes>());
    const int64_t single = item - vectors;
    if (single >= count - vectors * kLanes) return;
    body(single < head ? single : single + vectors * kLanes, std::integral_constant<int, 1>());
  }
};

// A tensor as a source.
template <typename T>
struct TensorSource {
  const T* data;
  bool vector = false;

  template <int kLanes>
  void Align(int64_t first) {
    vector = VectorAligned<kLanes>(data + first);
  }
  template <int kLanes>
  __device__ void Load(int64_t i, float (&lanes)[kLanes]) const {
    LoadLanes(data + i, vector, kLanes, lanes);
  }
};

template <int kLanes, typename Source, typename To>
__global__ void __launch_bounds__(kMapThreads) MapKernel(Split split, Source source, int64_t begin, To* to) {
  const int64_t item = int64_t{blockIdx.x} * kMapThreads + threadIdx.x;
  split.ForItem<kLanes>(item, [&](int64_t at, auto lane_count) {
    float lanes[lane_count.value];
    source.Load(begin + at, lanes);
    StoreLanes(lanes, true, lane_count.value, to + begin + at);
  });
}

// Computes to[i] for begin <= i < end.
template <int kLanes, typename Source, typename To>
void LaunchMap(Stream& stream, const char* op, int64_t begin, int64_t end, Source source, To* to) {
  const Split split = Split::Of<kLanes>(to + begin, end - begin);
  source.template Align<kLanes>(begin + split.head);
  const int64_t blocks = CeilDivide(split.Items<kLanes>(), kMapThreads);
  Launch(stream, op, MapKernel<kLanes, Source, To>, dim3(static_cast<unsigned>(blocks)), dim3(kMapThreads), 0, split,
         source, begin, to);
}

inline constexpr int kStagedThreads = 1024, kStagedEach = 8;
inline constexpr int64_t kStagedElements = kStagedThreads * kStagedEach;

// Computes the first kStagedElements in one block, which reads all of them before it writes any.
template <typename Source, typename To>
__global__ void __launch_bounds__(kStagedThreads) StagedMapKernel(int64_t count, Source source, To* to) {
  float values[kStagedEach][1];
  for (int k = 0; k < kStagedEach; ++k) {
    const int64_t i = threadIdx.x + k * kStagedThreads;
    if (i < count) source.Load(i, values[k]);
  }
  SyncThreads();
  for (int k = 0; k < kStagedEach; ++k) {
    const int64_t i = threadIdx.x + k * kStagedThreads;
    if (i < count) to[i] = Narrow<To>(values[k][0]);
  }
}

// As LaunchMap from `begin` to `count`, where `to` starts at the address of a vector of elements twice as wide that the
// source reads, and elements before `begin` are done. Results [s, 2s) overwrite inputs [s/2, s) and no others: so each
// launch processes as many elements as all before it, and overwrites only inputs that have been read.
template <int kLanes, typename Source, typename To>
void LaunchDoublingMap(Stream& stream, const char* op, int64_t begin, int64_t count, Source source, To* to) {
  for (; begin < count; begin *= 2) LaunchMap<kLanes>(stream, op, begin, std::min(2 * begin, count), source, to);
}

// As LaunchDoublingMap, but from element 0 on: the first kStagedElements go through registers.
template <int kLanes, typename Source, typename To>
void LaunchNarrowingMap(Stream& stream, const char* op, int64_t count, Source source, To* to) {
  if (count == 0) return;
  source.template Align<1>(0);
  Launch(stream, op, StagedMapKernel<Source, To>, dim3(1), dim3(kStagedThreads), 0, std::min(count, kStagedElements),
         source, to);
  LaunchDoublingMap<kLanes>(stream, op, kStagedElements, count, source, to);
}

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_MAP_CUH_
