// The instruction set the CPU kernels run on here.
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_ISA_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_ISA_H_

#include <string>

namespace zerofleet::device {

// "AVX2" or "AVX3" (AVX-512), as Highway names the best set both this CPU and this build have; with " bf16" after it
// where matmuls use bf16 instructions.
std::string IsaName();

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_ISA_H_
