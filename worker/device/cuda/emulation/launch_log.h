// What a program launches on the emulated GPU, for tests that count it: kernels, calls of the vendor's libraries, fills
// and copies, in order, with the bytes of device memory that each touches.
//
// A kernel's bytes are counted as it runs, where the compiler reports its loads and stores (CMakeLists.txt says where
// that is): each byte once per launch, as if a cache kept whatever the launch reads again. A library's call has the
// bytes and operations of its shape instead, since the host versions say nothing about the libraries' own accesses.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_LAUNCH_LOG_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_LAUNCH_LOG_H_

#include <driver_types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace zerofleet::device::cuda::emulation {

struct LoggedLaunch {
  std::string what;              // the op that a kernel belongs to, or the library's function
  const void* kernel = nullptr;  // of our own kernels
  std::string shape = {};        // of a library's call
  double flops = 0;              // of a library's call
  int64_t bytes_read = 0, bytes_written = 0;
};

enum class LaunchLogMode : uint8_t {
  kCount,  // everything runs
  kSkip,   // nothing runs, and device memory is never touched: for models that are too large for the machine
};

// From now on, for all threads, until StopLaunchLog; it returns what was launched since the last call of either.
void StartLaunchLog(LaunchLogMode mode);
std::vector<LoggedLaunch> TakeLaunchLog();
std::vector<LoggedLaunch> StopLaunchLog();

// Enqueues a kernel of the op `what`, whose threads `work` runs.
void EnqueueKernel(cudaStream_t stream, const char* what, const void* kernel, std::function<void()> work);
// Logs a library's call, a fill or a copy. Returns whether the caller shall leave it out.
bool LogCall(const LoggedLaunch& call);

// While it lives, nothing that its thread enqueues is logged: it belongs to a call that was.
class WithinCall {
 public:
  WithinCall();
  ~WithinCall();
  WithinCall(const WithinCall&) = delete;
};

}  // namespace zerofleet::device::cuda::emulation

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_LAUNCH_LOG_H_
