// FillNormal (ops.h) from random_normal.h's generator.
#include "worker/device/cpu/blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/kernels.h"

namespace zerofleet::device {

void CpuOps::FillNormal(Stream&, const FillNormalArguments& p) {
  pool_.RunBlocks(p.count, kElementBlock, [&](int64_t begin, int64_t end) {
    kernels::FillNormal(end - begin, p.seed, p.stream_id, static_cast<uint64_t>(p.first + begin), p.deviation,
                        p.to + begin);
  });
}

}  // namespace zerofleet::device
