// See vendor_library.h.
#include "worker/device/cuda/libraries/vendor_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace zerofleet::device::cuda {

VendorLibrary::VendorLibrary(const std::string& file) : handle_(dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
  if (handle_ != nullptr) return;
  const char* why = dlerror();
  status_ = absl::FailedPreconditionError(
      absl::StrCat("device cuda needs ", file, ", which cannot be opened: ", why == nullptr ? "no reason given" : why));
}

void* VendorLibrary::Find(const char* function) const {
  return handle_ == nullptr ? nullptr : dlsym(handle_, function);
}

}  // namespace zerofleet::device::cuda
