// The instruction set the CPU kernels run on here, and how it is limited.
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_ISA_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_ISA_H_

#include <string>

#include "absl/status/status.h"

namespace zerofleet::device {

// "AVX2" or "AVX3" (AVX-512), as Highway names the best set both this CPU and this build have; with " bf16" after it
// where the CPU has bf16 instructions and may use them. Does not settle PinIsa.
std::string IsaName();

// The best set that oneDNN uses, "AVX2" or "AVX512_CORE_BF16", and its version: "2.6.0". The first settles PinIsa.
std::string PrimitiveIsaName();
std::string PrimitiveVersion();

// See PinInstructionSet in device.h.
absl::Status PinIsa(const std::string& isa);
bool IsIsaPinned();

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_ISA_H_
