// Element-wise ops (ops.h): blocks of the range, shared by the pool.
#include "worker/device/cpu/blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/kernels.h"

namespace zerofleet::device {

void CpuOps::GeluForward(Stream&, int64_t count, Tensor x, Tensor y) {
  pool_.RunBlocks(count, kElementBlock,
                  [&](int64_t begin, int64_t end) { kernels::Gelu(end - begin, x.Offset(begin), y.Offset(begin)); });
}

}  // namespace zerofleet::device
