// FillNormal (ops.h) from random_normal.h's generator.
#include "worker/device/cpu/blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/random_normal.h"

namespace zerofleet {

void CpuOps::FillNormal(Stream&, int64_t count, uint64_t seed, uint64_t stream_id, int64_t first, float deviation,
                        float* to) {
  pool_.RunBlocks(count, kElementBlock, [&](int64_t begin, int64_t end) {
    FourNormals normals{};
    for (int64_t i = begin; i < end; ++i) {
      const uint64_t element = static_cast<uint64_t>(first + i);
      if (i == begin || element % 4 == 0) normals = NormalsOfBlock(seed, stream_id, element / 4, deviation);
      to[i] = normals.value[element % 4];
    }
  });
}

}  // namespace zerofleet
