// Matrix products on the CPU, for every op that needs one. No op calls oneDNN in another way.
//
// c(m,n) = a(m,k) b(k,n) [+ c] [+ bias], any mix of types, fp32 accumulation. How a product runs:
//   all fp32, rows of a and b along k   oneDNN's sgemm, in place;
//   bf16 x bf16, bf16 instructions      oneDNN's matmul primitive (matmul_primitive.h);
//   the same without AMX or bias, columns of a and b along k
//                                       bf16_dots.h, on operands that are packed for each tile;
//   anything else                       panels are copied as fp32 into the thread's fixed buffer, then sgemm.
// oneDNN runs on one thread each time; the output is cut into tiles that depend on the shape alone, so the bits do
// not depend on the number of threads. Where they do not depend on the tile, every thread gets as many tiles.
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_MATMUL_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_MATMUL_H_

#include "absl/status/status.h"
#include "worker/device/cpu/matmul_arguments.h"
#include "worker/device/cpu/thread_pool.h"

namespace zerofleet::device {

// The size of the tiles that the output is cut into, which follows from shapes and types alone.
struct OutputTile {
  int64_t m, n;
};
OutputTile OutputTileOf(const MatmulArguments& arguments);

// Cuts the output into tiles for the pool. ResourceExhausted if oneDNN finds no memory.
absl::Status Matmul(ThreadPool& pool, const MatmulArguments& arguments);

// As Matmul, on the calling thread alone, for the small products inside the pool's tasks. fp32 always runs in place.
absl::Status SerialMatmul(const MatmulArguments& arguments);

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_MATMUL_H_
