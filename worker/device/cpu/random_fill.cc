// FillNormal (ops.h) from random_normal.h's generator.
#include "worker/device/cpu/blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/random_normal.h"

namespace zerofleet::device {

void CpuOps::FillNormal(Stream&, const FillNormalArguments& p) {
  pool_.RunBlocks(p.count, kElementBlock, [&](int64_t begin, int64_t end) {
    FourNormals normals{};
    for (int64_t i = begin; i < end; ++i) {
      const uint64_t element = static_cast<uint64_t>(p.first + i);
      if (i == begin || element % 4 == 0) normals = NormalsOfBlock(p.seed, p.stream_id, element / 4, p.deviation);
      p.to[i] = normals.value[element % 4];
    }
  });
}

}  // namespace zerofleet::device
