// What a matrix product on the CPU is given.
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_MATMUL_ARGUMENTS_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_MATMUL_ARGUMENTS_H_

#include <cstdint>

#include "worker/device/ops.h"

namespace zerofleet::device {

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
  // The size of the whole product, where this is a part cut from it at tiles' edges: it has the whole one's tiles, and
  // so its bits. 0: it is whole.
  int64_t whole_m = 0, whole_n = 0;
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_MATMUL_ARGUMENTS_H_
