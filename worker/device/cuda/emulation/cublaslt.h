// What tests may ask of the host version of cuBLASLt (cublaslt.cc), and what it counts.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_CUBLASLT_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_CUBLASLT_H_

#include <cublasLt.h>

#include <cstdint>

namespace zerofleet::cuda::emulation {

struct CublasLt {
  // As on a GPU whose algorithms have no epilogue beyond the plain product, when false.
  bool fused_epilogues = true;
  // The result of cublasLtCreate, and of the next cublasLtMatmul, which then does nothing.
  cublasStatus_t create = CUBLAS_STATUS_SUCCESS;
  cublasStatus_t next_product = CUBLAS_STATUS_SUCCESS;

  int64_t queries = 0;   // for an algorithm
  int64_t products = 0;  // run
  int64_t fused = 0;     // of these, with an epilogue
};

// The library's one state, for tests of one thread. Assign {} to start afresh.
CublasLt& cublaslt();

}  // namespace zerofleet::cuda::emulation

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_CUBLASLT_H_
