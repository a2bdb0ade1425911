// NVIDIA's shared libraries, opened when a GPU is first used rather than when the executable starts.
//
// If linked in the usual way, cuBLASLt, cuDNN and NCCL would cost every process, including a coordinator or a CPU
// worker, 200 MiB and a tenth of a second, and the executable would not start on a machine without them. So the
// executable defines the few functions it calls itself, one file per library here; each passes the call on to the
// library of the same name. A function that the library lacks, or whose library could not be opened, returns that
// library's error code; the Open functions say why in words.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_LIBRARIES_VENDOR_LIBRARY_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_LIBRARIES_VENDOR_LIBRARY_H_

#include <string>

#include "absl/status/status.h"

namespace zerofleet::device::cuda {

// FailedPrecondition, in the loader's words, when the library is not on this machine. Cheap after the first call; any
// thread.
absl::Status OpenCublasLt();
absl::Status OpenCudnn();
absl::Status OpenNccl();

class VendorLibrary {
 public:
  // `file` is the name by which the loader finds the library: "libnccl.so.2".
  explicit VendorLibrary(const std::string& file);

  const absl::Status& status() const { return status_; }
  // Null when the library is not open or has no such function.
  void* Find(const char* function) const;

 private:
  void* handle_;
  absl::Status status_;
};

}  // namespace zerofleet::device::cuda

// The body of a function that passes its arguments on to the function of the same name in `library()`.
#define ZF_PASS_ON(library, function, missing, ...)                                           \
  static const auto found = reinterpret_cast<decltype(&function)>(library().Find(#function)); \
  return found == nullptr ? (missing) : found(__VA_ARGS__)

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_LIBRARIES_VENDOR_LIBRARY_H_
