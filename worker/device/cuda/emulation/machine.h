// The machine that the emulated CUDA runtime (runtime.cc) runs on: how many GPUs, and what they say of themselves.
#ifndef ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_MACHINE_H_
#define ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_MACHINE_H_

#include <cstdint>
#include <string>

namespace zerofleet::cuda::emulation {

// Each byte of memory that nobody has written: as floats of any width, NaN.
inline constexpr int kPoison = 0xff;

struct Machine {
  int driver_version = 13000;  // as cudaDriverGetVersion has it; 0: no driver
  int gpus = 2;
  int64_t bytes_each = int64_t{4} << 30;  // a limit that is kept: so much can be asked for and no more
  std::string name = "Emulated H100";  // its datasheet spares every run the measuring of a peak
  int major = 9, minor = 0;
};

// From now on, for all threads. No memory of the former machine may be held.
void SetMachine(Machine machine);

// Bytes of device memory that are held, all GPUs together.
int64_t DeviceBytesHeld();

}  // namespace zerofleet::cuda::emulation

#endif  // ZEROFLEET_WORKER_DEVICE_CUDA_EMULATION_MACHINE_H_
