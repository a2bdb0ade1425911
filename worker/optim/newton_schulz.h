// The nearest matrix with orthonormal rows or columns, by Newton-Schulz: what Muon turns a momentum into (Jordan et al.
// 2024, "Muon: An optimizer for hidden layers in neural networks").
#ifndef ZEROFLEET_WORKER_OPTIM_NEWTON_SCHULZ_H_
#define ZEROFLEET_WORKER_OPTIM_NEWTON_SCHULZ_H_

#include <cstdint>

#include "worker/device/device.h"
#include "worker/device/ops.h"

namespace zerofleet::optim {

inline constexpr int kNewtonSchulzSteps = 5;

// Scratch, in device memory.
struct NewtonSchulzMemory {
  float *next, *gram, *squared;  // elements: rows x columns, then twice the square of the shorter side
  double* sum;                   // one value
};

// Replaces x(rows, columns), fp32, by the result of five steps of X' = aX + b(XX^T)X + c(XX^T)^2 X that begin with X
// over its norm. The coefficients are the reference's and leave singular values between about 0.7 and 1.2. For a tall
// matrix X^T X takes XX^T's place, as if it were transposed. The result's bits depend only on the matrix. Everything is
// enqueued on `stream`; the host waits for nothing.
void NewtonSchulz(device::Ops& ops, device::Stream& stream, int64_t rows, int64_t columns, float* x,
                  const NewtonSchulzMemory& memory);

}  // namespace zerofleet::optim

#endif  // ZEROFLEET_WORKER_OPTIM_NEWTON_SCHULZ_H_
