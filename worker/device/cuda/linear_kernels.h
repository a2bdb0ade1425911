// The work of cuBLASLt's epilogues, for products where it has none (linear.cc).
//
// Each is one pass over a matrix in memory, and rounds to its type once more than the epilogue would.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_LINEAR_KERNELS_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_LINEAR_KERNELS_H_

#include <cstdint>

#include "worker/device/band_ops.h"
#include "worker/device/ops.h"

namespace zerofleet::device::cuda {

// Adds bias(N) to each row of y(M,N); both have one type.
void AddBias(Stream& stream, const char* op, int64_t m, int64_t n, Tensor bias, Tensor y);

// y *= gelu'(before), element by element; both have one type.
void MultiplyByGeluSlope(Stream& stream, const char* op, int64_t count, Tensor before, Tensor y);

// sums(columns.count) += the sums over the rows of `columns` of x(M,N), in an order that depends on x's shape alone
// (column_sums.cuh).
// `partials` is kPartialBytes (workspace.h) of device memory.
void AddColumnSums(Stream& stream, const char* op, int64_t m, int64_t n, const RowBand& columns, Tensor x,
                   float* partials, float* sums);

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_LINEAR_KERNELS_H_
