// Element-wise ops (ops.h): blocks of the range, shared by the pool.
#include "worker/device/cpu/blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/kernels.h"

namespace zerofleet::device {

void CpuOps::GeluForward(Stream&, int64_t count, Tensor x, Tensor y) {
  pool_.RunBlocks(count, kElementBlock,
                  [&](int64_t begin, int64_t end) { kernels::Gelu(end - begin, x.Offset(begin), y.Offset(begin)); });
}

void CpuOps::Columns(Stream&, const ColumnsArguments& p) {
  pool_.RunBlocks(p.m, RowBlock(p.n), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      kernels::AddScaled(p.n, p.from.Offset(row * p.from_columns + p.from_first), p.scale, p.add,
                         p.to.Offset(row * p.to_columns + p.to_first));
    }
  });
}

}  // namespace zerofleet::device
