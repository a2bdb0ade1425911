// A reduce-scatter in the order that topology.h defines, in chunks of constant size, over any transport.
//
// Step s moves chunk s of the shards within the teams: each rank receives from its team mates the chunks of the shards
// that it collects, and adds them in rank order. With one team that is the result. With several, the team's fp32 sums
// of chunk s go to the shards' owners in step s + kExchangeDepth, and each owner adds the teams' sums in team order.
//
// With T teams of g ranks, a rank sends (g-1)/g of the elements in their own type to its team mates and, for each
// element of the array, at most 4/g*(T-1)/T bytes to other teams: a team sends 4*S*(T-1)/T bytes for S elements. A rank
// sends size - 1 messages per chunk, as with one team.
#ifndef ZEROFLEET_WORKER_COLLECTIVE_ORDERED_REDUCE_H_
#define ZEROFLEET_WORKER_COLLECTIVE_ORDERED_REDUCE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "worker/collective/exchange.h"
#include "worker/collective/sum.h"
#include "worker/collective/topology.h"
#include "worker/device/tensor.h"

namespace zerofleet::collective {

// How a reduction is cut: chunks are as long as `scratch_bytes` allows, but no longer than `chunk_bytes`.
struct ReduceLimits {
  int64_t scratch_bytes;
  int64_t chunk_bytes;
};

class OrderedReduce {
 public:
  // The scratch memory that reductions of every type fit in under these limits: at most limits.scratch_bytes.
  static int64_t ScratchBytes(const Topology& topology, const ReduceLimits& limits);

  // `scratch` has ScratchBytes, aligned to 64 bytes, and must outlive this object.
  OrderedReduce(const Topology& topology, const ReduceLimits& limits, std::byte* scratch);

  // As Communicator::ReduceScatter.
  absl::Status Run(ExchangeTransport& transport, device::Tensor full, device::Tensor shard, int64_t count,
                   const SumChain& chain = {});

 private:
  // The reduction in progress.
  struct Reduction {
    device::Tensor full, shard;
    int64_t count, chunk_elements;
    SumChain chain;

    const std::byte* At(int64_t element) const { return static_cast<const std::byte*>(full.Offset(element).data); }
  };

  // How many chunk buffers a rank needs at most; the same on every rank, since all must cut alike.
  struct Slots {
    explicit Slots(const Topology& topology);
    // Scratch memory per element of a chunk.
    int64_t Bytes(int64_t element_bytes) const;
    int64_t ChunkElements(const ReduceLimits& limits, int64_t element_bytes) const;

    int64_t contributions, sums, other_sums;
  };

  Range Chunk(const Reduction& reduction, int shard, int64_t chunk) const;
  device::Tensor Result(const Reduction& reduction, int64_t chunk) const;
  void ListContributions(const Reduction& reduction, int64_t chunk, ExchangeTransport::Messages& messages) const;
  void ListTeamSums(const Reduction& reduction, int64_t chunk, ExchangeTransport::Messages& messages) const;
  void SumRanks(ExchangeTransport& transport, const Reduction& reduction, int64_t chunk);
  void SumTeams(ExchangeTransport& transport, const Reduction& reduction, int64_t chunk);

  // Places in the scratch memory: what `mate` (counted in the team) contributes to the `index`-th collected shard; this
  // team's sum of that shard; `team`'s sum of this rank's own shard.
  std::byte* Contribution(const Reduction& reduction, int64_t chunk, int mate, int index) const;
  std::byte* TeamSum(const Reduction& reduction, int64_t chunk, int index) const;
  std::byte* OtherTeamSum(const Reduction& reduction, int64_t chunk, int team) const;
  std::byte* Sums(const Reduction& reduction) const;  // where the sums begin, behind the contributions

  const Topology topology_;
  const Slots slots_;
  const ReduceLimits limits_;
  std::byte* const scratch_;
  const int team_, place_, mates_;                 // this rank's team, its place in it, and the team's size
  const std::vector<std::vector<int>> collected_;  // by mate: the shards that the mate collects
  std::vector<const void*> contributions_;         // the terms of one sum
};

}  // namespace zerofleet::collective

#endif  // ZEROFLEET_WORKER_COLLECTIVE_ORDERED_REDUCE_H_
