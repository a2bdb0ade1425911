// Switches and counters of the host version of cuBLASLt (cublaslt.cc), for tests.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_CUBLASLT_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_CUBLASLT_H_

#include <cublasLt.h>

#include <cstdint>

namespace zerofleet::device::cuda::emulation {

struct CublasLt {
  // false: no algorithm has an epilogue beyond the plain product.
  bool fused_epilogues = true;
  // false: an algorithm runs the product that it was found for, and no part of it.
  bool bands = true;
  // `create` is what cublasLtCreate returns. `next_product` is what the next cublasLtMatmul returns; if it is an error,
  // that call does nothing.
  cublasStatus_t create = CUBLAS_STATUS_SUCCESS;
  cublasStatus_t next_product = CUBLAS_STATUS_SUCCESS;

  int64_t queries = 0;   // calls that look for an algorithm
  int64_t products = 0;  // products run
  int64_t fused = 0;     // products run with an epilogue
  int64_t uneven = 0;    // products run of which an extent is no multiple of 8
};

// The only state of this cuBLASLt, for single-threaded tests. Assign {} to reset it.
CublasLt& cublaslt();

}  // namespace zerofleet::device::cuda::emulation

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_CUBLASLT_H_
