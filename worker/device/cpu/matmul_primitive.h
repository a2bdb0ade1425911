// oneDNN's matmul primitive, which uses bf16 instructions (AVX-512 BF16, AMX) where the CPU has them.
//
// Used only by matmul.cc and isa.cc. A primitive is made once for each shape, layout and thread, and kept.
#ifndef ZEROFLEET_WORKER_DEVICE_CPU_MATMUL_PRIMITIVE_H_
#define ZEROFLEET_WORKER_DEVICE_CPU_MATMUL_PRIMITIVE_H_

#include "absl/status/status.h"
#include "worker/device/cpu/matmul_arguments.h"

namespace zerofleet::device {

// Whether this CPU multiplies bf16 faster than fp32 and oneDNN has a primitive that does so here.
bool HasBF16Instructions();
// Whether they are those of AMX, which multiply bf16 several times as fast as vectors multiply fp32.
bool HasAmx();

// Computes one whole product on the calling thread; a and b have one type. fp32 works on every CPU.
absl::Status PrimitiveMatmul(const MatmulArguments& arguments);

}  // namespace zerofleet::device

#endif  // ZEROFLEET_WORKER_DEVICE_CPU_MATMUL_PRIMITIVE_H_
