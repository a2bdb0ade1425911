// Rows of a matrix, each processed by a block: a thread takes a group of neighbouring elements at a time.
//
// What a thread adds up, and in which order, follows from the number of columns alone: alignment decides only how a
// group of lanes is loaded (vector.cuh), so a row may be anywhere in a flat vector.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_ROWS_CUH_
#define ZEROFLEET_WORKER_DEVICE_CUDA_ROWS_CUH_

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "base/units.h"
#include "worker/device/cuda/vector.cuh"
#include "worker/device/tensor.h"

namespace zerofleet::device::cuda {

inline constexpr int kMostRowThreads = 512;

// Elements per group: 16 bytes of a row.
template <typename T>
inline constexpr int kRowLanes = 16 / static_cast<int>(sizeof(T));

// Enough threads to give each one group of the row, up to the size of a block.
template <typename T>
inline dim3 RowThreads(int64_t c) {
  const int64_t groups = CeilDivide(c, kRowLanes<T>);
  return dim3(static_cast<unsigned>(std::min<int64_t>(kMostRowThreads, RoundUp(groups, kWarp))));
}

// Calls body(i, left) for each group of this thread: it starts at column i, and `left` columns remain from i on.
template <typename T, typename Body>
__device__ void ForRow(int64_t c, const Body& body) {
  for (int64_t i = int64_t{threadIdx.x} * kRowLanes<T>; i < c; i += int64_t{blockDim.x} * kRowLanes<T>) body(i, c - i);
}

// A matrix with rows of C elements, or one such row. With kWhole every group of every row is whole and aligned, for all
// matrices of a launch, so that no load waits for a branch.
template <typename T, bool kWhole>
struct Rows {
  T* data;
  bool vector;  // groups of kRowLanes are aligned in every row

  Rows(const Tensor& tensor, int64_t c) : data(static_cast<T*>(tensor.data)), vector(IsWhole(tensor, c)) {}
  static bool IsWhole(const Tensor& tensor, int64_t c) {
    return c % kRowLanes<T> == 0 && VectorAligned<kRowLanes<T>>(static_cast<const T*>(tensor.data));
  }

  __device__ void Load(int64_t at, int64_t left, float (&lanes)[kRowLanes<T>], float padding = 0.0f) const {
    if constexpr (kWhole)
      Lanes<kRowLanes<T>, T>::Load(data + at, lanes);
    else
      LoadLanes(data + at, vector, left, lanes, padding);
  }
  __device__ void Store(const float (&lanes)[kRowLanes<T>], int64_t at, int64_t left) const {
    if constexpr (kWhole)
      Lanes<kRowLanes<T>, T>::Store(lanes, data + at);
    else
      StoreLanes(lanes, vector, left, data + at);
  }
};

// One group of a row as it is stored, which takes fewer registers than floats do while it waits to be used.
template <typename T, bool kWhole>
struct PackedRow {
  Bits16 bits = {};

  // Elements past the row's end are 0.
  __device__ void Load(const Rows<T, kWhole>& rows, int64_t at, int64_t left) {
    const T* const from = rows.data + at;
    if constexpr (kWhole) {
      LoadWhole(reinterpret_cast<const Bits16*>(from), bits);
    } else if (rows.vector && left >= kRowLanes<T>) {
      LoadWhole(reinterpret_cast<const Bits16*>(from), bits);
    } else {
      T elements[kRowLanes<T>];
      for (int lane = 0; lane < kRowLanes<T>; ++lane) elements[lane] = lane < left ? from[lane] : T{};
      __builtin_memcpy(&bits, elements, sizeof bits);
    }
  }
  __device__ void Widen(float (&lanes)[kRowLanes<T>]) const {
    T elements[kRowLanes<T>];
    __builtin_memcpy(elements, &bits, sizeof bits);
    for (int lane = 0; lane < kRowLanes<T>; ++lane) lanes[lane] = cuda::Widen(elements[lane]);
  }
};

// Calls body(true_type) if Rows::IsWhole holds for all `tensors`, else body(false_type).
template <typename T, typename Body>
void WithWhole(std::initializer_list<Tensor> tensors, int64_t c, const Body& body) {
  const bool whole = std::all_of(tensors.begin(), tensors.end(),
                                 [&](const Tensor& tensor) { return Rows<T, true>::IsWhole(tensor, c); });
  if (whole)
    body(std::true_type());
  else
    body(std::false_type());
}

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_ROWS_CUH_
