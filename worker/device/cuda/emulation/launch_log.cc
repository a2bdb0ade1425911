// See launch_log.h. The functions that kernels call at each load and store are at the end.
#include "worker/device/cuda/emulation/launch_log.h"

#include <cuda_runtime_api.h>

#include <bitset>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/device/cuda/emulation/streams.h"

namespace zerofleet::device::cuda::emulation {
namespace {

class Log {
 public:
  static Log& Get() {
    static Log& log = *new Log;  // outlives every thread
    return log;
  }

  std::optional<LaunchLogMode> mode() {
    absl::MutexLock lock(&mutex_);
    return mode_;
  }
  void SetMode(std::optional<LaunchLogMode> mode) {
    absl::MutexLock lock(&mutex_);
    mode_ = mode;
  }
  void Add(LoggedLaunch launch) {
    absl::MutexLock lock(&mutex_);
    launches_.push_back(std::move(launch));
  }
  std::vector<LoggedLaunch> Take() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(launches_, {});
  }

 private:
  absl::Mutex mutex_;
  std::optional<LaunchLogMode> mode_ ABSL_GUARDED_BY(mutex_);
  std::vector<LoggedLaunch> launches_ ABSL_GUARDED_BY(mutex_);
};

constexpr uintptr_t kPageBytes = 4096;

// The bytes that a launch has touched so far, device memory or not.
class Touched {
 public:
  void Read(uintptr_t at, size_t bytes) { Set(at, bytes, &Page::read); }
  void Write(uintptr_t at, size_t bytes) { Set(at, bytes, &Page::written); }

  // Adds the bytes on GPUs to the launch's.
  void AddTo(LoggedLaunch& launch) const {
    for (const auto& [number, page] : pages_) {
      cudaPointerAttributes attributes;
      cudaPointerGetAttributes(&attributes, reinterpret_cast<void*>(number * kPageBytes + page->first));
      if (attributes.type != cudaMemoryTypeDevice) continue;
      launch.bytes_read += static_cast<int64_t>(page->read.count());
      launch.bytes_written += static_cast<int64_t>(page->written.count());
    }
  }

 private:
  struct Page {
    uintptr_t first;  // the byte that was touched first
    std::bitset<kPageBytes> read = {}, written = {};
  };

  // An access within one page, as all of at most 16 aligned bytes are.
  void Set(uintptr_t at, size_t bytes, std::bitset<kPageBytes> Page::*set) {
    const uintptr_t first = at % kPageBytes;
    std::unique_ptr<Page>& page = pages_[at / kPageBytes];
    if (page == nullptr) page = std::make_unique<Page>(Page{.first = first});
    for (size_t i = 0; i < bytes && first + i < kPageBytes; ++i) ((*page).*set).set(first + i);
  }

  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages_;
};

thread_local Touched* touched = nullptr;  // the running launch's, where one is counted
thread_local bool within_call = false;    // a WithinCall lives

}  // namespace

void StartLaunchLog(LaunchLogMode mode) { Log::Get().SetMode(mode); }

std::vector<LoggedLaunch> TakeLaunchLog() {
  DrainStreams();
  return Log::Get().Take();
}

std::vector<LoggedLaunch> StopLaunchLog() {
  std::vector<LoggedLaunch> launches = TakeLaunchLog();
  Log::Get().SetMode(std::nullopt);
  return launches;
}

void EnqueueKernel(cudaStream_t stream, const char* what, const void* kernel, std::function<void()> work) {
  const std::optional<LaunchLogMode> mode = Log::Get().mode();
  if (!mode || within_call) return Enqueue(stream, std::move(work));
  const LoggedLaunch launch{.what = what, .kernel = kernel};
  if (mode == LaunchLogMode::kSkip) return Log::Get().Add(launch);
  Enqueue(stream, [launch, work = std::move(work)] {
    LoggedLaunch counted = launch;
    Touched bytes;
    touched = &bytes;
    work();
    touched = nullptr;
    bytes.AddTo(counted);
    Log::Get().Add(std::move(counted));
  });
}

bool LogCall(const LoggedLaunch& call) {
  const std::optional<LaunchLogMode> mode = Log::Get().mode();
  if (!mode || within_call) return false;
  Log::Get().Add(call);
  return mode == LaunchLogMode::kSkip;
}

WithinCall::WithinCall() { within_call = true; }
WithinCall::~WithinCall() { within_call = false; }

}  // namespace zerofleet::device::cuda::emulation

// clang calls these before each load and store of what is compiled with -fsanitize-coverage=trace-loads,trace-stores.
#define ZF_REPORT(bytes)                                                            \
  extern "C" void __sanitizer_cov_load##bytes(const void* at) {                     \
    using zerofleet::device::cuda::emulation::touched;                              \
    if (touched != nullptr) touched->Read(reinterpret_cast<uintptr_t>(at), bytes);  \
  }                                                                                 \
  extern "C" void __sanitizer_cov_store##bytes(const void* at) {                    \
    using zerofleet::device::cuda::emulation::touched;                              \
    if (touched != nullptr) touched->Write(reinterpret_cast<uintptr_t>(at), bytes); \
  }
ZF_REPORT(1)
ZF_REPORT(2)
ZF_REPORT(4)
ZF_REPORT(8)
ZF_REPORT(16)
#undef ZF_REPORT
