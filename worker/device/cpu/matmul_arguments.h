// The arguments of a matrix product on the CPU.
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_MATMUL_ARGUMENTS_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_MATMUL_ARGUMENTS_H_

#include <cstdint>

#include "worker/device/ops.h"

namespace zerofleet::device {

// A row-major matrix with `stride` elements from row to row. `transposed` means that memory holds the transpose of the
// matrix in the product: rows and columns swap roles in memory, not in m, n and k.
struct Matrix {
  Tensor data;
  int64_t stride = 0;
  bool transposed = false;
};

struct MatmulArguments {
  int64_t m = 0, n = 0, k = 0;
  Matrix a = {}, b = {}, c = {};  // c is never transposed
  bool accumulate = false;        // adds the product to c, which is then fp32
  Tensor bias = {};               // n values added to each row; may be null; not with accumulate
  // The whole product's m and n, where this product is a part cut from it at the edges of tiles: it then has the whole
  // product's tiles, and so its bits. 0: equal to m or n.
  int64_t whole_m = 0, whole_n = 0;
};

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_MATMUL_ARGUMENTS_H_
