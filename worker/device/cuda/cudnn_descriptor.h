// cuDNN's backend descriptors as C++ values: the only use of its C graph API.
//
// A descriptor is made, given attributes and finalized. A failure on the way sticks to the descriptor, and Finalize
// returns it; so code that makes a graph reads as a list of its nodes. Neither a handle nor a GPU is needed here.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_CUDNN_DESCRIPTOR_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_CUDNN_DESCRIPTOR_H_

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zerofleet::device::cuda {

// OK for success. kUnimplemented for what cuDNN does not support here, FailedPrecondition where it finds no usable GPU
// or driver, ResourceExhausted for lack of memory, Internal for the rest; the message contains cuDNN's last error text.
absl::Status CudnnStatus(cudnnStatus_t code, std::string_view what);

class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;
  // `what` names the descriptor in errors and must outlive it (a literal does).
  CudnnDescriptor(cudnnBackendDescriptorType_t type, std::string_view what);

  cudnnBackendDescriptor_t get() const { return descriptor_.get(); }

  CudnnDescriptor& Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                       const void* values);
  CudnnDescriptor& Set(cudnnBackendAttributeName_t name, int64_t value) {
    return Set(name, CUDNN_TYPE_INT64, 1, &value);
  }
  CudnnDescriptor& Set(cudnnBackendAttributeName_t name, bool value) {
    return Set(name, CUDNN_TYPE_BOOLEAN, 1, &value);
  }
  CudnnDescriptor& Set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
    return Set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
  }
  CudnnDescriptor& Set(cudnnBackendAttributeName_t name, std::span<const int64_t> values) {
    return Set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
  }
  CudnnDescriptor& Set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
    const cudnnBackendDescriptor_t descriptor = value.get();
    return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &descriptor);
  }

  // Finalizes the descriptor. Returns the first failure since its construction.
  absl::Status Finalize();

  // Reads an attribute of a finalized descriptor, `capacity` values at most; returns how many there are.
  absl::StatusOr<int64_t> Get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t capacity,
                              void* values) const;

 private:
  struct Destroy {
    void operator()(cudnnBackendDescriptor_t descriptor) const { cudnnBackendDestroyDescriptor(descriptor); }
  };
  std::unique_ptr<void, Destroy> descriptor_;
  std::string_view what_;
  absl::Status status_;
};

}  // namespace zerofleet::device::cuda

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_CUDNN_DESCRIPTOR_H_
