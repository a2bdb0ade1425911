// The functions of cuDNN's graph library that attention calls; see vendor_library.h.
#include <cudnn_graph.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "worker/device/cuda/libraries/vendor_library.h"

namespace zerofleet::device::cuda {
namespace {

const VendorLibrary& Cudnn() {
  static const VendorLibrary library(absl::StrCat("libcudnn.so.", CUDNN_MAJOR));
  return library;
}

}  // namespace

absl::Status OpenCudnn() { return Cudnn().status(); }

}  // namespace zerofleet::device::cuda

using zerofleet::device::cuda::Cudnn;

size_t cudnnGetVersion(void) { ZF_PASS_ON(Cudnn, cudnnGetVersion, 0); }

const char* cudnnGetErrorString(cudnnStatus_t status) {
  ZF_PASS_ON(Cudnn, cudnnGetErrorString, "cuDNN is not on this machine", status);
}

void cudnnGetLastErrorString(char* message, size_t bytes) {
  static const auto found =
      reinterpret_cast<decltype(&cudnnGetLastErrorString)>(Cudnn().Find("cudnnGetLastErrorString"));
  if (found != nullptr) return found(message, bytes);
  if (bytes > 0) *message = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  ZF_PASS_ON(Cudnn, cudnnCreate, CUDNN_STATUS_NOT_INITIALIZED, handle);
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  ZF_PASS_ON(Cudnn, cudnnDestroy, CUDNN_STATUS_NOT_INITIALIZED, handle);
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  ZF_PASS_ON(Cudnn, cudnnSetStream, CUDNN_STATUS_NOT_INITIALIZED, handle, stream);
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  ZF_PASS_ON(Cudnn, cudnnBackendCreateDescriptor, CUDNN_STATUS_NOT_INITIALIZED, type, descriptor);
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  ZF_PASS_ON(Cudnn, cudnnBackendDestroyDescriptor, CUDNN_STATUS_NOT_INITIALIZED, descriptor);
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  ZF_PASS_ON(Cudnn, cudnnBackendFinalize, CUDNN_STATUS_NOT_INITIALIZED, descriptor);
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  ZF_PASS_ON(Cudnn, cudnnBackendSetAttribute, CUDNN_STATUS_NOT_INITIALIZED, descriptor, name, type, count, values);
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted, int64_t* count, void* values) {
  ZF_PASS_ON(Cudnn, cudnnBackendGetAttribute, CUDNN_STATUS_NOT_INITIALIZED, descriptor, name, type, wanted, count,
             values);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  ZF_PASS_ON(Cudnn, cudnnBackendExecute, CUDNN_STATUS_NOT_INITIALIZED, handle, plan, pack);
}
