// See cudnn_descriptor.h.
#include "worker/device/cuda/cudnn_descriptor.h"

#include <array>
#include <string>

#include "absl/strings/str_cat.h"

namespace zerofleet::device::cuda {

absl::Status CudnnStatus(cudnnStatus_t code, std::string_view what) {
  if (code == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  std::array<char, 512> last_words{};
  cudnnGetLastErrorString(last_words.data(), last_words.size());
  std::string message = absl::StrCat(absl::string_view(what.data(), what.size()), ": ", cudnnGetErrorString(code));
  if (last_words[0] != '\0') absl::StrAppend(&message, " (", last_words.data(), ")");
  if (CUDNN_STATUS_CATEGORY(code) == CUDNN_STATUS_NOT_SUPPORTED) return absl::UnimplementedError(message);
  if (code == CUDNN_STATUS_NOT_INITIALIZED) return absl::FailedPreconditionError(message);
  if (code == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ||
      code == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED) {
    return absl::ResourceExhaustedError(message);
  }
  return absl::InternalError(message);
}

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type, std::string_view what) : what_(what) {
  cudnnBackendDescriptor_t descriptor = nullptr;
  status_ = CudnnStatus(cudnnBackendCreateDescriptor(type, &descriptor), what_);
  descriptor_.reset(descriptor);
}

CudnnDescriptor& CudnnDescriptor::Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                                      const void* values) {
  if (status_.ok()) {
    status_ = CudnnStatus(cudnnBackendSetAttribute(descriptor_.get(), name, type, count, values), what_);
  }
  return *this;
}

absl::Status CudnnDescriptor::Finalize() {
  if (status_.ok()) status_ = CudnnStatus(cudnnBackendFinalize(descriptor_.get()), what_);
  return status_;
}

absl::StatusOr<int64_t> CudnnDescriptor::Get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                             int64_t capacity, void* values) const {
  int64_t count = 0;
  const absl::Status status =
      CudnnStatus(cudnnBackendGetAttribute(descriptor_.get(), name, type, capacity, &count, values), what_);
  if (!status.ok()) return status;
  return count;
}

}  // namespace zerofleet::device::cuda
