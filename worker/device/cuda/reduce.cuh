// Sums over a warp and over a block, in an order that depends on the block's size alone.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_REDUCE_CUH_
#define ZEROFLEET_WORKER_DEVICE_CUDA_REDUCE_CUH_

#include "worker/device/cuda/launch.cuh"

namespace zerofleet::device::cuda {

inline constexpr int kMostWarps = 32;  // per block

// The sum over the warp, in every lane. Pairs are added as a tree, and a + b is b + a: all lanes get the same bits.
template <typename T>
__device__ inline T WarpSum(T value) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) value += ShuffleXor(value, lanes);
  return value;
}

// Replaces each of `values` by its sum over the block, in every thread. The block is one-dimensional and of whole
// warps; all its threads must call.
template <int kValues, typename T>
__device__ inline void BlockSum(T (&values)[kValues]) {
  __shared__ T of_warps[kValues][kMostWarps];
  const int warp = static_cast<int>(threadIdx.x) / kWarp, warps = static_cast<int>(blockDim.x) / kWarp;
  for (int v = 0; v < kValues; ++v) {
    values[v] = WarpSum(values[v]);
    if (threadIdx.x % kWarp == 0) of_warps[v][warp] = values[v];
  }
  SyncThreads();
  for (int v = 0; v < kValues; ++v) {
    values[v] = of_warps[v][0];
    for (int w = 1; w < warps; ++w) values[v] += of_warps[v][w];
  }
  SyncThreads();  // the next sum uses the same memory
}

template <typename T>
__device__ inline T BlockSum(T value) {
  T values[1] = {value};
  BlockSum(values);
  return values[0];
}

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_REDUCE_CUH_
