// launch.cuh for the host: the same kernels, with every GPU thread a fiber and blocks run one after another.
//
// Precedes the real one in the include path of the emulation build only (emulation/CMakeLists.txt). A barrier or a
// shuffle switches to the block's next fiber until all have reached it; one that some fibers never reach fails a CHECK.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_LAUNCH_CUH_
#define ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_LAUNCH_CUH_

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "worker/device/cuda/cuda_status.h"
#include "worker/device/cuda/cuda_stream.h"
#include "worker/device/cuda/emulation/fibers.h"
#include "worker/device/cuda/emulation/launch_log.h"

// Without nvcc the vendor's header defines these as nothing; static arrays must be shared by the block's fibers.
#undef __shared__
#define __shared__ static thread_local
#undef __launch_bounds__
#define __launch_bounds__(...)
#define threadIdx (::zerofleet::device::cuda::emulation::CurrentThread().thread)
#define blockIdx (::zerofleet::device::cuda::emulation::CurrentThread().block)
#define blockDim (::zerofleet::device::cuda::emulation::CurrentThread().block_size)
#define gridDim (::zerofleet::device::cuda::emulation::CurrentThread().grid_size)

namespace zerofleet::device::cuda {

inline constexpr int kWarp = 32;

// `line` is the caller's line, so that one barrier or exchange in the source is not taken for another.
inline void SyncThreads(int line = __builtin_LINE()) { emulation::Barrier(line); }

template <typename T>
T ShuffleXor(T value, int lanes, int line = __builtin_LINE()) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  bits = emulation::ExchangeXor(bits, lanes, line);
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

template <typename T>
T* DynamicShared() {
  return static_cast<T*>(emulation::DynamicShared());
}

template <typename... Parameters, typename... Arguments>
void Launch(Stream& stream, const char* op, void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
            Arguments&&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  CudaStream& cuda_stream = static_cast<CudaStream&>(stream);
  cuda_stream.MakeCurrent();
  emulation::EnqueueKernel(cuda_stream.handle(), op, reinterpret_cast<const void*>(kernel),
                           [=, parameters = std::tuple<Parameters...>(static_cast<Parameters>(arguments)...)] {
                             emulation::RunGrid(op, grid, block, shared_bytes, [&] { std::apply(kernel, parameters); });
                           });
}

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_LAUNCH_CUH_
