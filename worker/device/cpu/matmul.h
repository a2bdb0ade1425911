// Matrix products on the CPU, for every op that needs one: the only door to oneDNN.
//
// c(m,n) = a(m,k) b(k,n) [+ c] [+ bias], any mix of types, fp32 accumulation. How a product runs:
//   all fp32, rows of a and b along k   oneDNN's sgemm, in place;
//   bf16 x bf16, bf16 instructions      oneDNN's matmul primitive (matmul_primitive.h);
//   anything else                       panels copied as fp32 into a fixed buffer of the thread, then sgemm.
// oneDNN runs on one thread each time; the output is cut into tiles that depend on the shape alone, so the bits do
// not depend on the number of threads.
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_MATMUL_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_MATMUL_H_

#include "absl/status/status.h"
#include "worker/device/cpu/matmul_arguments.h"
#include "worker/device/cpu/thread_pool.h"

namespace zerofleet::device {

// The tiles that the output is cut into; shapes and types decide.
struct OutputTile {
  int64_t m, n;
};
OutputTile OutputTileOf(const MatmulArguments& arguments);

// Cuts the output into tiles for the pool. ResourceExhausted if oneDNN finds no memory.
absl::Status Matmul(ThreadPool& pool, const MatmulArguments& arguments);

// The same on the calling thread, for the small products inside the pool's tasks: fp32 always in place.
absl::Status SerialMatmul(const MatmulArguments& arguments);

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_MATMUL_H_
