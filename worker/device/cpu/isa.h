// The instruction set that the CPU kernels use here, and how to limit it.
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_ISA_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_ISA_H_

#include <string>

#include "absl/status/status.h"

namespace zerofleet::device {

// Highway's name of the best set that both this CPU and this build have: "AVX2", or "AVX3" (AVX-512). " bf16" follows
// where the CPU has bf16 instructions and may use them. PinIsa may still be called afterwards.
std::string IsaName();

// The best set that oneDNN uses ("AVX2", "AVX-512 with bf16"), and oneDNN's version ("2.6.0"). After PrimitiveIsaName
// PinIsa comes too late.
std::string PrimitiveIsaName();
std::string PrimitiveVersion();

// See PinInstructionSet in device.h.
absl::Status PinIsa(const std::string& isa);
bool IsIsaPinned();

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_ISA_H_
