// The arithmetic of a reduction, shared by every backend so that all give the same bits.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_SUM_H_
#define ZEROFLEET_WORKER_COLLECTIVE_SUM_H_

#include <cstdint>
#include <span>

#include "worker/collective/topology.h"
#include "worker/device/tensor.h"

namespace zerofleet::collective {

// What a reduction over the ranks of one team goes on from. Two reductions of which the second begins with the first's
// result are one sum, left to right, of all that both were given: the same for any number of ranks.
struct SumChain {
  const float* initial = nullptr;  // this rank's part of what the sum begins with; on every rank or on none
  int contributors = 0;            // only what the first so many ranks give is added; 0: all of them
};

// Whether results go past the caches, which saves reading the lines that they overwrite; no bit depends on it.
enum class Stores : uint8_t { kCached, kStreaming };
// For a result of so many bytes: streaming where a cache would not keep it until it is used.
Stores StoresFor(int64_t bytes);

// to[i] = contributions[0][i] + contributions[1][i] + ..., for i < count: left to right in fp32, then one rounding to
// its type. `to` may be one of the contributions itself if its elements are not wider than theirs.
//
// A sum in teams (topology.h) is one such sum per team, to fp32, and one of the teams' sums.
//
// With `initial` (count floats) the sum begins with that: (initial[i] + contributions[0][i]) + ...; it may be `to`
// itself where that is fp32.
void SumInOrder(std::span<const void* const> contributions, device::DType dtype, device::Tensor to, int64_t count,
                const float* initial = nullptr, Stores stores = Stores::kCached);

// The sum over ranks that topology.h defines, where all contributions, by rank, are at hand. With one team it is
// SumInOrder; fewer contributions than ranks are those of the first ones, in one team.
void SumRanksInOrder(const Topology& topology, std::span<const void* const> contributions, device::DType dtype,
                     device::Tensor to, int64_t count, const float* initial = nullptr, Stores stores = Stores::kCached);

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_SUM_H_
