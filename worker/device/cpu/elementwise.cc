// Element-wise ops (ops.h): blocks of the range, shared by the pool.
#include "worker/device/cpu/blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/kernels.h"

namespace zerofleet {

void CpuOps::GeluForward(Stream&, int64_t count, Tensor x, Tensor y) {
  pool_.RunBlocks(count, kElementBlock, [&](int64_t begin, int64_t end) {
    kernels::Gelu(end - begin, x.Offset(begin), y.Offset(begin));
  });
}

void CpuOps::GeluBackward(Stream&, int64_t count, Tensor x, Tensor dy, Tensor dx) {
  pool_.RunBlocks(count, kElementBlock, [&](int64_t begin, int64_t end) {
    kernels::GeluGradient(end - begin, x.Offset(begin), dy.Offset(begin), dx.Offset(begin));
  });
}

void CpuOps::Add(Stream&, int64_t count, Tensor a, Tensor b, Tensor y) {
  pool_.RunBlocks(count, kElementBlock, [&](int64_t begin, int64_t end) {
    kernels::Add(end - begin, a.Offset(begin), b.Offset(begin), y.Offset(begin));
  });
}

}  // namespace zerofleet
