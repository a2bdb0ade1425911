// The arithmetic of a reduction, shared by every backend so that all give the same bits.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_SUM_H_
#define ZEROFLEET_WORKER_COLLECTIVE_SUM_H_

#include <cstdint>
#include <span>

#include "worker/device/tensor.h"

namespace zerofleet::collective {

// to[i] = contributions[0][i] + contributions[1][i] + ..., for i < count: left to right in fp32, then one rounding to
// its type. `to` may be one of the contributions itself if its elements are not wider than theirs.
//
// A sum in teams (topology.h) is one such sum per team, to fp32, and one of the teams' sums.
void SumInOrder(std::span<const void* const> contributions, device::DType dtype, device::Tensor to, int64_t count);

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_SUM_H_
