// Switches and counters of the host version of cuBLASLt (cublaslt.cc), for tests.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_CUBLASLT_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_CUBLASLT_H_

#include <cublasLt.h>

#include <cstdint>

namespace zerofleet::device::cuda::emulation {

struct CublasLt {
  // When false: as on a GPU whose algorithms have no epilogue beyond the plain product.
  bool fused_epilogues = true;
  // What cublasLtCreate returns, and the next cublasLtMatmul, which then does nothing.
  cublasStatus_t create = CUBLAS_STATUS_SUCCESS;
  cublasStatus_t next_product = CUBLAS_STATUS_SUCCESS;

  int64_t queries = 0;   // for an algorithm
  int64_t products = 0;  // run
  int64_t fused = 0;     // of these, with an epilogue
};

// The library's only state, for single-threaded tests. Assign {} to reset it.
CublasLt& cublaslt();

}  // namespace zerofleet::device::cuda::emulation

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_CUBLASLT_H_
