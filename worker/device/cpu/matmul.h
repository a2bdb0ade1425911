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

#include <cstdint>

#include "absl/status/status.h"
#include "worker/device/cpu/thread_pool.h"
#include "worker/device/ops.h"

namespace zerofleet {

// A row-major matrix with `stride` elements from row to row. `transposed` means that what is stored is the transpose
// of what the product uses: rows and columns swap roles in memory, not in m, n and k.
struct Matrix {
  Tensor data;
  int64_t stride = 0;
  bool transposed = false;
};

struct MatmulArguments {
  int64_t m = 0, n = 0, k = 0;
  Matrix a = {}, b = {}, c = {};  // c is never transposed
  bool accumulate = false;        // adds to c, which is then fp32
  Tensor bias = {};               // n values added to each row; may be null; not with accumulate
};

// Cuts the output into tiles for the pool. ResourceExhausted if oneDNN finds no memory.
absl::Status Matmul(ThreadPool& pool, const MatmulArguments& arguments);

// The same on the calling thread, for the small products inside the pool's tasks: fp32 always in place.
absl::Status SerialMatmul(const MatmulArguments& arguments);

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_MATMUL_H_
