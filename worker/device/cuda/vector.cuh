// Loads and stores of several neighbouring elements as floats, in accesses of up to 16 bytes where the address allows.
//
// What a thread computes never depends on how its elements were moved: the same lanes go to the same thread whether
// they were moved in one access or one by one, so alignment changes speed but never bits.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_VECTOR_CUH_
#define ZEROFLEET_WORKER_DEVICE_CUDA_VECTOR_CUH_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "worker/device/cuda/launch.cuh"
#include "worker/device/dtype.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace zerofleet::device::cuda {

// What kernels call instead of ToFloat and FromFloat: conversions by the GPU's own instructions, where it has any. They
// round as dtype.h does; only the bits of a NaN may differ.
template <typename T>
__device__ inline float Widen(T value) {
  return ToFloat(value);
}

template <typename T>
__device__ inline T Narrow(float value) {
  return FromFloat<T>(value);
}

#ifdef __CUDA_ARCH__
template <>
__device__ inline float Widen<F16>(F16 value) {
  return __half2float(__ushort_as_half(value.bits));
}

template <>
__device__ inline F16 Narrow<F16>(float value) {
  return F16{__half_as_ushort(__float2half_rn(value))};
}

template <>
__device__ inline BF16 Narrow<BF16>(float value) {
  return BF16{__bfloat16_as_ushort(__float2bfloat16_rn(value))};
}
#endif

// The bits that one load or store instruction moves. May alias any type's memory.
struct __attribute__((aligned(16), may_alias)) Bits16 {
  uint32_t x, y, z, w;
};
struct __attribute__((aligned(8), may_alias)) Bits8 {
  uint32_t x, y;
};

// Copies the members one by one: clang makes a memcpy of a struct's copy, which the emulation cannot count.
template <typename Bits>
inline void CopyMembers(const Bits& from, Bits& to) {
  to.x = from.x;
  to.y = from.y;
  if constexpr (sizeof(Bits) == 16) {
    to.z = from.z;
    to.w = from.w;
  }
}

// One load instruction.
template <typename Bits>
__device__ inline void LoadWhole(const Bits* from, Bits& bits) {
#ifdef __CUDA_ARCH__
  bits = *from;
#else
  CopyMembers(*from, bits);
#endif
}

// One store instruction. nvcc splits a plain copy of such a struct into four stores of four bytes that are 16 bytes
// apart from thread to thread; the intrinsic keeps the store whole, as `nvcc -ptx` shows.
template <typename Bits>
__device__ inline void StoreWhole(const Bits& bits, Bits* to) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(Bits) == 16)
    __stwb(reinterpret_cast<uint4*>(to), make_uint4(bits.x, bits.y, bits.z, bits.w));
  else
    __stwb(reinterpret_cast<uint2*>(to), make_uint2(bits.x, bits.y));
#else
  CopyMembers(bits, *to);
#endif
}

// The bytes to which kLanes elements of T must be aligned to move as vectors.
template <int kLanes, typename T>
inline constexpr size_t kVectorAlignment = kLanes * sizeof(T) < 16 ? kLanes * sizeof(T) : 16;

template <int kLanes, typename T>
bool VectorAligned(const T* data) {
  return reinterpret_cast<uintptr_t>(data) % kVectorAlignment<kLanes, T> == 0;
}

template <int kLanes, typename T>
struct Lanes {
  static constexpr int kBytes = kLanes * static_cast<int>(sizeof(T));
  static_assert(kBytes == 8 || kBytes % 16 == 0);
  using Bits = std::conditional_t<kBytes == 8, Bits8, Bits16>;
  static constexpr int kAccesses = kBytes / static_cast<int>(sizeof(Bits));

  __device__ static void Load(const T* from, float (&lanes)[kLanes]) {
    Bits bits[kAccesses];
    for (int i = 0; i < kAccesses; ++i) LoadWhole(reinterpret_cast<const Bits*>(from) + i, bits[i]);
    T elements[kLanes];
    __builtin_memcpy(elements, bits, kBytes);
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = Widen(elements[lane]);
  }

  __device__ static void Store(const float (&lanes)[kLanes], T* to) {
    T elements[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) elements[lane] = Narrow<T>(lanes[lane]);
    Bits bits[kAccesses];
    __builtin_memcpy(bits, elements, kBytes);
    for (int i = 0; i < kAccesses; ++i) StoreWhole(bits[i], reinterpret_cast<Bits*>(to) + i);
  }
};

// Loads `count` elements from `from`, at most kLanes; the other lanes hold `padding`. `vector` says that whole groups
// are aligned.
template <int kLanes, typename T>
__device__ inline void LoadLanes(const T* from, bool vector, int64_t count, float (&lanes)[kLanes],
                                 float padding = 0.0f) {
  if constexpr (kLanes > 1) {
    if (vector && count >= kLanes) return Lanes<kLanes, T>::Load(from, lanes);
  }
  for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = lane < count ? Widen(from[lane]) : padding;
}

template <int kLanes, typename T>
__device__ inline void StoreLanes(const float (&lanes)[kLanes], bool vector, int64_t count, T* to) {
  if constexpr (kLanes > 1) {
    if (vector && count >= kLanes) return Lanes<kLanes, T>::Store(lanes, to);
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    if (lane < count) to[lane] = Narrow<T>(lanes[lane]);
  }
}

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_VECTOR_CUH_
