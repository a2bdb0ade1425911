// See recording_driver.h. Built as libcuda.so.1, the name under which cuDNN opens the driver before it makes a plan,
// even one for a GPU that is only described.
//
// It accepts code and hands out kernels by name, which is how a plan's kernels become known. Whatever else would ask
// about a device or work on one fails with CUDA_ERROR_NO_DEVICE, so a plan rests on the description of the GPU alone.
// It is no driver for the CUDA runtime, which checks that the driver is NVIDIA's (docs/gpu.md). Where a newer cuDNN
// wants a function that is missing here, it prints the name, and makes no plan: add the function to the list.
#include "tests/gpu/recording_driver.h"

#include <utility>

#include "absl/synchronization/mutex.h"

namespace zerofleet::device::cuda {
namespace {

struct Recorded {
  absl::Mutex mutex;
  std::vector<std::string> kernels ABSL_GUARDED_BY(mutex);
};

Recorded& TheRecord() {
  static auto& recorded = *new Recorded;
  return recorded;
}

// What handles point to; nothing reads it.
char something = 0;

}  // namespace

std::vector<std::string> TakeKernels() {
  Recorded& recorded = TheRecord();
  const absl::MutexLock lock(&recorded.mutex);
  return std::exchange(recorded.kernels, {});
}

}  // namespace zerofleet::device::cuda

using zerofleet::device::cuda::something;

// The driver's functions, with handles as void*, rather than cuda.h's declarations: those that fail ignore their
// arguments.
extern "C" {

constexpr int kSuccess = 0, kNoDevice = 100;

int cuLibraryLoadData(void** library, const void* /*code*/) {
  *library = &something;
  return kSuccess;
}
int cuLibraryUnload(void* /*library*/) { return kSuccess; }
int cuLibraryGetKernel(void** kernel, void* /*library*/, const char* name) {
  auto& recorded = zerofleet::device::cuda::TheRecord();
  const absl::MutexLock lock(&recorded.mutex);
  recorded.kernels.emplace_back(name);
  *kernel = &something;
  return kSuccess;
}

#define ZF_NO_DEVICE(function) \
  int function() { return kNoDevice; }
ZF_NO_DEVICE(cuCtxGetCurrent)
ZF_NO_DEVICE(cuCtxGetLimit)
ZF_NO_DEVICE(cuCtxPopCurrent)
ZF_NO_DEVICE(cuCtxPushCurrent)
ZF_NO_DEVICE(cuDeviceGet)
ZF_NO_DEVICE(cuDeviceGetCount)
ZF_NO_DEVICE(cuDriverGetVersion)
ZF_NO_DEVICE(cuGetErrorName)
ZF_NO_DEVICE(cuGetErrorString)
ZF_NO_DEVICE(cuKernelGetAttribute)
ZF_NO_DEVICE(cuKernelGetFunction)
ZF_NO_DEVICE(cuKernelSetAttribute)
ZF_NO_DEVICE(cuLaunchCooperativeKernel)
ZF_NO_DEVICE(cuLaunchKernel)
ZF_NO_DEVICE(cuLaunchKernelEx)
ZF_NO_DEVICE(cuLibraryLoadFromFile)
ZF_NO_DEVICE(cuLinkAddData)
ZF_NO_DEVICE(cuLinkComplete)
ZF_NO_DEVICE(cuLinkCreate)
ZF_NO_DEVICE(cuLinkDestroy)
ZF_NO_DEVICE(cuOccupancyMaxPotentialClusterSize)
ZF_NO_DEVICE(cuStreamGetCtx)

}  // extern "C"
