// The arithmetic of a reduction, shared by every backend so that all give the same bits.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_SUM_H_
#define ZEROFLEET_WORKER_COLLECTIVE_SUM_H_

#include <cstdint>
#include <span>

#include "worker/collective/topology.h"
#include "worker/device/tensor.h"

namespace zerofleet::collective {

// The earlier sum that a reduction over the ranks of one team continues. A reduction that begins with another's result
// and that other one form one sum, left to right, of the contributions to both: the same for any number of ranks.
struct SumChain {
  const float* initial = nullptr;  // this rank's shard of the earlier sum; set on every rank or on none
  int contributors = 0;            // only the first `contributors` ranks' contributions are added; 0: all ranks'
};

// Whether results are stored past the caches, which saves reading the lines that they overwrite; no bit depends on it.
enum class Stores : uint8_t { kCached, kStreaming };
// How to store a result of `bytes`: streaming where a cache would not keep it until it is used.
Stores StoresFor(int64_t bytes);

// to[i] = contributions[0][i] + contributions[1][i] + ..., for i < count: left to right in fp32, then one rounding to
// its type. `to` may be one of the contributions itself if its elements are not wider than theirs.
//
// A sum in teams (topology.h) consists of one such sum per team, to fp32, and one such sum of the teams' sums.
//
// With `initial` (count floats) the sum begins with it: (initial[i] + contributions[0][i]) + ...; `initial` may be `to`
// itself where that is fp32.
void SumInOrder(std::span<const void* const> contributions, device::DType dtype, device::Tensor to, int64_t count,
                const float* initial = nullptr, Stores stores = Stores::kCached);

// The sum over ranks that topology.h defines, from all ranks' contributions, by rank. With one team it is SumInOrder.
// There may be fewer contributions than ranks only with one team: they are then the first ranks'.
void SumRanksInOrder(const Topology& topology, std::span<const void* const> contributions, device::DType dtype,
                     device::Tensor to, int64_t count, const float* initial = nullptr, Stores stores = Stores::kCached);

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_SUM_H_
