// The arithmetic of a reduction on the GPU: a kernel that gives the same bits as worker/collective/sum.h.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_SUM_IN_ORDER_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_SUM_IN_ORDER_H_

#include <cstdint>
#include <span>

#include "worker/device/cuda/cuda_stream.h"
#include "worker/device/tensor.h"

namespace zerofleet::device::cuda {

// As many pointers as a kernel's parameters hold (32764 bytes from compute capability 7.0 on), less some slack.
inline constexpr int kMostContributions = 4000;

// to[i] = contributions[0][i] + contributions[1][i] + ..., for i < count: left to right in fp32, then one rounding to
// its type. There are 1 to kMostContributions contributions, each `count` elements of `dtype` in device memory. `to`
// may start at the address of one of them if its elements are not wider than theirs; otherwise it overlaps none.
// With `initial` (count floats of device memory) the sum begins with it; `initial` may be `to` where that is fp32.
void EnqueueSumInOrder(CudaStream& stream, std::span<const void* const> contributions, DType dtype, Tensor to,
                       int64_t count, const float* initial = nullptr);

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_SUM_IN_ORDER_H_
