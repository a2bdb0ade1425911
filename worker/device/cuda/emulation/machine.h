// The machine that the emulated CUDA runtime (runtime.cc) runs on: how many GPUs, and the properties they report.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_MACHINE_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_MACHINE_H_

#include <driver_types.h>

#include <cstdint>
#include <string>

namespace zerofleet::device::cuda::emulation {

// The value of each byte of memory that has not been written: read as floats of any width, it is NaN.
inline constexpr int kPoison = 0xff;

struct Machine {
  int driver_version = 13000;       // as cudaDriverGetVersion reports it; 0: no driver
  cudaError_t fault = cudaSuccess;  // what the runtime's functions return where it is not cudaSuccess
  int gpus = 2;
  int64_t bytes_each = int64_t{4} << 30;     // enforced: no more than this can be allocated
  int64_t pinned_bytes = int64_t{16} << 30;  // pinned host memory for all GPUs; enforced too
  std::string name = "Emulated H100";        // datasheet.cc lists it, so that no run has to measure a peak
  int major = 9, minor = 0;
};

// What every function of the runtime returns on a machine without a driver or GPU.
cudaError_t MachineError();
// Records an error for cudaGetLastError on this thread, and returns it.
cudaError_t ReturnError(cudaError_t code);

// Replaces the machine for all threads. No memory of the previous one may still be allocated.
void SetMachine(Machine machine);

// Allocated bytes of device memory, over all GPUs, and of pinned host memory.
int64_t DeviceBytesHeld();
int64_t PinnedBytesHeld();

}  // namespace zerofleet::device::cuda::emulation

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_MACHINE_H_
