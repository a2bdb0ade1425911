// The only way to launch kernels, and the few things a kernel may use besides its arguments.
//
// Kernels use only what is listed here, so that the same source also runs on the host (emulation/), where tests run it
// with bounds checks on any machine: threadIdx and the like, static __shared__ arrays, DynamicShared, SyncThreads, and
// shuffles among a whole warp. There are no atomics, since every op gives the same bits on every run.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_LAUNCH_CUH_
#define ZEROFLEET_WORKER_DEVICE_CUDA_LAUNCH_CUH_

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>

#include "worker/device/cuda/cuda_status.h"
#include "worker/device/cuda/cuda_stream.h"

namespace zerofleet::device::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kWholeWarp = 0xffffffffu;

__device__ inline void SyncThreads() { __syncthreads(); }

// The value of lane (own lane xor `lanes`). All 32 lanes must call it. T is float, double or an integer.
template <typename T>
__device__ T ShuffleXor(T value, int lanes) {
  return __shfl_xor_sync(kWholeWarp, value, lanes);
}

// The block's dynamic shared memory, aligned to 16 bytes.
template <typename T>
__device__ T* DynamicShared() {
  extern __shared__ uint4 dynamic_shared_memory[];
  return reinterpret_cast<T*>(dynamic_shared_memory);
}

// Enqueues kernel<<<grid, block, shared_bytes>>>(arguments...); a failure is recorded on the stream under `op`'s name.
// More than 48 KiB of dynamic shared memory is requested where needed. A grid with a zero side is not launched.
template <typename... Parameters, typename... Arguments>
void Launch(Stream& stream, const char* op, void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
            Arguments&&... arguments) {
  constexpr size_t kWithoutAsking = 48 << 10;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  CudaStream& cuda_stream = static_cast<CudaStream&>(stream);
  cuda_stream.MakeCurrent();
  if (shared_bytes > kWithoutAsking) {
    cuda_stream.Keep(
        CudaStatus(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                        cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
                   op));
  }
  kernel<<<grid, block, shared_bytes, cuda_stream.handle()>>>(
      static_cast<Parameters>(std::forward<Arguments>(arguments))...);
  cuda_stream.Keep(CudaStatus(cudaGetLastError(), op));
}

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_LAUNCH_CUH_
