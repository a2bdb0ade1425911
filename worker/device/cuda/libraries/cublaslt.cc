// The functions of cuBLASLt that matmul.cc calls; see vendor_library.h.
#include <cublasLt.h>

#include "absl/strings/str_cat.h"
#include "worker/device/cuda/libraries/vendor_library.h"

namespace zerofleet::device::cuda {
namespace {

const VendorLibrary& CublasLt() {
  static const VendorLibrary library(absl::StrCat("libcublasLt.so.", CUBLAS_VER_MAJOR));
  return library;
}

}  // namespace

absl::Status OpenCublasLt() { return CublasLt().status(); }

}  // namespace zerofleet::device::cuda

using zerofleet::device::cuda::CublasLt;

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  ZF_PASS_ON(CublasLt, cublasLtCreate, CUBLAS_STATUS_NOT_INITIALIZED, handle);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  ZF_PASS_ON(CublasLt, cublasLtDestroy, CUBLAS_STATUS_NOT_INITIALIZED, handle);
}

size_t cublasLtGetVersion(void) { ZF_PASS_ON(CublasLt, cublasLtGetVersion, 0); }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  ZF_PASS_ON(CublasLt, cublasLtGetStatusName, "unnamed", status);
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  ZF_PASS_ON(CublasLt, cublasLtGetStatusString, "cuBLASLt is not on this machine", status);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_desc, const void* b, cublasLtMatrixLayout_t b_desc,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_desc, void* d,
                              cublasLtMatrixLayout_t d_desc, const cublasLtMatmulAlgo_t* algo, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  ZF_PASS_ON(CublasLt, cublasLtMatmul, CUBLAS_STATUS_NOT_INITIALIZED, handle, desc, alpha, a, a_desc, b, b_desc, beta,
             c, c_desc, d, d_desc, algo, workspace, workspace_bytes, stream);
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a_desc, cublasLtMatrixLayout_t b_desc,
                                       cublasLtMatrixLayout_t c_desc, cublasLtMatrixLayout_t d_desc,
                                       const cublasLtMatmulAlgo_t* algo, cublasLtMatmulHeuristicResult_t* result) {
  ZF_PASS_ON(CublasLt, cublasLtMatmulAlgoCheck, CUBLAS_STATUS_NOT_INITIALIZED, handle, desc, a_desc, b_desc, c_desc,
             d_desc, algo, result);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a_desc, cublasLtMatrixLayout_t b_desc,
                                              cublasLtMatrixLayout_t c_desc, cublasLtMatrixLayout_t d_desc,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t results[], int* found_count) {
  ZF_PASS_ON(CublasLt, cublasLtMatmulAlgoGetHeuristic, CUBLAS_STATUS_NOT_INITIALIZED, handle, desc, a_desc, b_desc,
             c_desc, d_desc, preference, most, results, found_count);
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc, size_t size, cublasComputeType_t compute,
                                               cudaDataType_t scale) {
  ZF_PASS_ON(CublasLt, cublasLtMatmulDescInit_internal, CUBLAS_STATUS_NOT_INITIALIZED, desc, size, compute, scale);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  ZF_PASS_ON(CublasLt, cublasLtMatmulDescSetAttribute, CUBLAS_STATUS_NOT_INITIALIZED, desc, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, size_t size) {
  ZF_PASS_ON(CublasLt, cublasLtMatmulPreferenceInit_internal, CUBLAS_STATUS_NOT_INITIALIZED, preference, size);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    size_t bytes) {
  ZF_PASS_ON(CublasLt, cublasLtMatmulPreferenceSetAttribute, CUBLAS_STATUS_NOT_INITIALIZED, preference, attribute,
             value, bytes);
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t size, cudaDataType type,
                                                 uint64_t rows, uint64_t columns, int64_t ld) {
  ZF_PASS_ON(CublasLt, cublasLtMatrixLayoutInit_internal, CUBLAS_STATUS_NOT_INITIALIZED, layout, size, type, rows,
             columns, ld);
}
