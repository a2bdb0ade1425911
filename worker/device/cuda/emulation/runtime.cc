// The functions of the CUDA runtime that the backend calls, on host memory; see machine.h for the GPUs they report.
//
// Devices, memory and errors; streams and events are in streams.cc. Device memory is allocated on the host, never more
// than the machine has. Its start is NaN at first and again when it is freed; ASan or a guard page checks its bounds.
// Mistakes that the real functions refuse are refused here too: work on a stream or event of a GPU that is not current,
// freeing what was not allocated, setting memory that no GPU can reach, objects that do not exist.
//
// To use another function of the runtime, add it here; the linker reports which is missing.
#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "worker/device/cuda/emulation/launch_log.h"
#include "worker/device/cuda/emulation/machine.h"
#include "worker/device/cuda/emulation/streams.h"

namespace zerofleet::device::cuda::emulation {
namespace {

constexpr size_t kAlignment = 256;  // what cudaMalloc promises
// How much of an allocation is poisoned: enough to expose reads before writes, at little cost.
constexpr size_t kPoisonedBytes = size_t{1} << 20;

struct Allocation {
  size_t bytes;
  int device;  // or kHost
};
constexpr int kHost = -1;

// Allocations from this size on are mapped, and end at a guard page. AddressSanitizer marks every byte of its own
// allocations, which for the workspace of every rank's GPU takes longer than a step of a small model.
constexpr size_t kMappedBytes = size_t{16} << 20;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Bytes from the beginning of a mapping to its data.
size_t BeforeMapped(size_t bytes) { return RoundUp(bytes, sysconf(_SC_PAGESIZE)) - RoundUp(bytes, kAlignment); }

void* NewMemory(size_t bytes) {
  if (bytes < kMappedBytes) return ::operator new(bytes, std::align_val_t(kAlignment));
  const size_t page = sysconf(_SC_PAGESIZE), usable = RoundUp(bytes, page);
  void* const mapping =
      mmap(nullptr, usable + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ZF_CHECK(mapping != MAP_FAILED);
  ZF_CHECK(mprotect(static_cast<char*>(mapping) + usable, page, PROT_NONE) == 0);
  return static_cast<char*>(mapping) + BeforeMapped(bytes);
}

void DeleteMemory(void* data, size_t bytes) {
  if (bytes < kMappedBytes) return ::operator delete(data, std::align_val_t(kAlignment));
  const size_t page = sysconf(_SC_PAGESIZE);
  ZF_CHECK(munmap(static_cast<char*>(data) - BeforeMapped(bytes), RoundUp(bytes, page) + page) == 0);
}

class State {
 public:
  static State& Get() {
    static State& state = *new State;  // outlives every thread
    return state;
  }

  Machine machine() {
    absl::MutexLock lock(&mutex_);
    return machine_;
  }

  void SetMachine(Machine machine) {
    absl::MutexLock lock(&mutex_);
    ZF_CHECK(allocations_.empty());
    machine_ = std::move(machine);
  }

  void* Allocate(size_t bytes, int device) {
    absl::MutexLock lock(&mutex_);
    const int64_t most = device == kHost ? machine_.pinned_bytes : machine_.bytes_each;
    if (Held(device) + static_cast<int64_t>(bytes) > most) return nullptr;
    void* const data = NewMemory(bytes);
    std::memset(data, kPoison, std::min(bytes, kPoisonedBytes));
    allocations_[reinterpret_cast<uintptr_t>(data)] = {bytes, device};
    return data;
  }

  bool Free(void* data, bool host) {
    absl::MutexLock lock(&mutex_);
    const auto found = allocations_.find(reinterpret_cast<uintptr_t>(data));
    if (found == allocations_.end() || (found->second.device == kHost) != host) return false;
    // Called through a volatile pointer; otherwise the compiler would drop the writes as dead before the release.
    static void* (*volatile const fill)(void*, int, size_t) = std::memset;
    fill(data, kPoison, std::min(found->second.bytes, kPoisonedBytes));
    DeleteMemory(data, found->second.bytes);
    allocations_.erase(found);
    return true;
  }

  // The allocation that contains `at`, or null. Valid until the allocation is freed.
  const Allocation* Find(const void* at) {
    absl::MutexLock lock(&mutex_);
    auto found = allocations_.upper_bound(reinterpret_cast<uintptr_t>(at));
    if (found == allocations_.begin()) return nullptr;
    --found;
    return reinterpret_cast<uintptr_t>(at) < found->first + found->second.bytes ? &found->second : nullptr;
  }

  bool OnGpu(const void* at) {
    const Allocation* const allocation = Find(at);
    return allocation != nullptr && allocation->device != kHost;
  }

  int64_t HeldBytes(int device) {
    absl::MutexLock lock(&mutex_);
    return Held(device);
  }

 private:
  int64_t Held(int device) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    size_t bytes = 0;
    for (const auto& [begin, allocation] : allocations_) bytes += allocation.device == device ? allocation.bytes : 0;
    return static_cast<int64_t>(bytes);
  }

  absl::Mutex mutex_;
  Machine machine_ ABSL_GUARDED_BY(mutex_);
  std::map<uintptr_t, Allocation> allocations_ ABSL_GUARDED_BY(mutex_);
};

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t Return(cudaError_t code) { return ReturnError(code); }

cudaError_t Allocate(void** data, size_t bytes, int device) {
  if (const cudaError_t error = MachineError(); error != cudaSuccess) return Return(error);
  *data = bytes == 0 ? nullptr : State::Get().Allocate(bytes, device);
  return Return(bytes != 0 && *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

}  // namespace

cudaError_t ReturnError(cudaError_t code) {
  if (code != cudaSuccess) last_error = code;
  return code;
}

cudaError_t MachineError() {
  const Machine machine = State::Get().machine();
  if (machine.driver_version < CUDART_VERSION / 1000 * 1000) return cudaErrorInsufficientDriver;
  if (machine.fault != cudaSuccess) return machine.fault;
  return machine.gpus == 0 ? cudaErrorNoDevice : cudaSuccess;
}

void SetMachine(Machine machine) { State::Get().SetMachine(std::move(machine)); }

int64_t DeviceBytesHeld() {
  int64_t bytes = 0;
  for (int device = 0; device < State::Get().machine().gpus; ++device) bytes += State::Get().HeldBytes(device);
  return bytes;
}

int64_t PinnedBytesHeld() { return State::Get().HeldBytes(kHost); }

}  // namespace zerofleet::device::cuda::emulation

using namespace zerofleet::device::cuda::emulation;  // NOLINT: the functions below are CUDA's own, outside any
                                                     // namespace

// --- Errors.

const char* cudaGetErrorName(cudaError_t code) {
  switch (code) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorSystemNotReady: return "cudaErrorSystemNotReady";
    default: return "cudaErrorUnknown";
  }
}

const char* cudaGetErrorString(cudaError_t code) {
  switch (code) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorSystemNotReady: return "system not yet initialized";
    default: return "unknown error";
  }
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

// --- Devices.

cudaError_t cudaDriverGetVersion(int* version) {
  *version = State::Get().machine().driver_version;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (const cudaError_t error = MachineError(); error != cudaSuccess) return Return(error);
  *count = State::Get().machine().gpus;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t error = MachineError(); error != cudaSuccess) return Return(error);
  if (device < 0 || device >= State::Get().machine().gpus) return Return(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return Return(MachineError());
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const Machine machine = State::Get().machine();
  if (device < 0 || device >= machine.gpus) return Return(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "%s", machine.name.c_str());
  for (int i = 0; i < 16; ++i) properties->uuid.bytes[i] = static_cast<char>(0xe0 + i);
  properties->uuid.bytes[15] = static_cast<char>(device);
  properties->totalGlobalMem = static_cast<size_t>(machine.bytes_each);
  properties->sharedMemPerBlock = size_t{48} << 10;
  properties->sharedMemPerBlockOptin = size_t{227} << 10;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->multiProcessorCount = 4;
  properties->major = machine.major;
  properties->minor = machine.minor;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device); error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *value = properties.major; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor: *value = properties.minor; return cudaSuccess;
    case cudaDevAttrMultiProcessorCount: *value = properties.multiProcessorCount; return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      return cudaSuccess;
    default: return Return(cudaErrorInvalidValue);
  }
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int bytes, int device) {
  std::snprintf(id, static_cast<size_t>(bytes), "0000:%02X:00.0", device);
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }

// --- Memory.

cudaError_t cudaMalloc(void** data, size_t bytes) { return Allocate(data, bytes, current_device); }
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) { return Allocate(data, bytes, kHost); }
cudaError_t cudaMallocHost(void** data, size_t bytes) { return Allocate(data, bytes, kHost); }

// Both wait for the work that uses the memory.
cudaError_t cudaFree(void* data) {
  if (data != nullptr) DrainStreams();
  return Return(data == nullptr || State::Get().Free(data, false) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaFreeHost(void* data) {
  if (data != nullptr) DrainStreams();
  return Return(data == nullptr || State::Get().Free(data, true) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  if (const cudaError_t error = MachineError(); error != cudaSuccess) return Return(error);
  const int64_t bytes = State::Get().machine().bytes_each;
  *total = static_cast<size_t>(bytes);
  *free = static_cast<size_t>(bytes - State::Get().HeldBytes(current_device));
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* at) {
  *attributes = {};
  const Allocation* const allocation = State::Get().Find(at);
  attributes->type = allocation == nullptr         ? cudaMemoryTypeUnregistered
                     : allocation->device == kHost ? cudaMemoryTypeHost
                                                   : cudaMemoryTypeDevice;
  attributes->device = allocation == nullptr || allocation->device == kHost ? current_device : allocation->device;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  if (bytes != 0) {
    const bool reads = State::Get().OnGpu(from), writes = State::Get().OnGpu(to);
    const int64_t count = static_cast<int64_t>(bytes);
    if (LogCall({.what = "cudaMemcpyAsync", .bytes_read = reads ? count : 0, .bytes_written = writes ? count : 0})) {
      return Return(MachineError());
    }
    EnqueueCopy(stream, from, reads != writes ? count : 0, [=] { std::memmove(to, from, bytes); });
  }
  return Return(MachineError());
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return cudaStreamSynchronize(nullptr);
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (State::Get().Find(to) == nullptr) return Return(cudaErrorInvalidValue);
  if (LogCall({.what = "cudaMemsetAsync", .bytes_written = static_cast<int64_t>(bytes)})) return cudaSuccess;
  Enqueue(stream, [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}

// On device memory cudaMemset returns before the work is done.
cudaError_t cudaMemset(void* to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes, nullptr); }
