// See ordered_reduce.h.
#include "worker/collective/ordered_reduce.h"

#include <algorithm>

#include "base/check.h"
#include "base/units.h"

namespace zerofleet::collective {
namespace {

constexpr int64_t kSumBytes = sizeof(float);  // bytes of one element of a team's sum
// Chunks begin at addresses where a kernel can use its widest loads.
constexpr int64_t kChunkAlignment = 64;
// One chunk of a team's sums is being written, one waits for its step, and one is in transit.
constexpr int kSumSlots = 3;

std::vector<std::vector<int>> CollectedByMate(const Topology& topology) {
  const int team = topology.TeamOf(topology.rank());
  std::vector<std::vector<int>> collected;
  for (int mate = 0; mate < topology.SizeOf(team); mate++) {
    collected.push_back(topology.Collected(topology.FirstOf(team) + mate));
  }
  return collected;
}

}  // namespace

OrderedReduce::Slots::Slots(const Topology& topology) {
  const int teams = topology.teams();
  size_t most_collected = 0;
  // All teams are like the first, except perhaps the last.
  for (const int team : {0, teams - 1}) {
    for (int mate = 0; mate < topology.SizeOf(team); mate++) {
      most_collected = std::max(most_collected, topology.Collected(topology.FirstOf(team) + mate).size());
    }
  }
  contributions = kExchangeDepth * (topology.team() - 1) * static_cast<int64_t>(most_collected);
  sums = teams == 1 ? 0 : kSumSlots * static_cast<int64_t>(most_collected);
  other_sums = kExchangeDepth * (teams - 1);
}

int64_t OrderedReduce::Slots::Bytes(int64_t element_bytes) const {
  return contributions * element_bytes + (sums + other_sums) * kSumBytes;
}

int64_t OrderedReduce::Slots::ChunkElements(const ReduceLimits& limits, int64_t element_bytes) const {
  int64_t elements = limits.chunk_bytes / element_bytes;
  if (Bytes(element_bytes) > 0) elements = std::min(elements, limits.scratch_bytes / Bytes(element_bytes));
  elements = elements * element_bytes / kChunkAlignment * kChunkAlignment / element_bytes;
  ZF_CHECK(elements > 0);
  return elements;
}

int64_t OrderedReduce::ScratchBytes(const Topology& topology, const ReduceLimits& limits) {
  const Slots slots(topology);
  int64_t bytes = 0;
  for (const device::DType dtype : {device::DType::kF32, device::DType::kBF16, device::DType::kF16}) {
    bytes = std::max(bytes,
                     slots.Bytes(device::DTypeBytes(dtype)) * slots.ChunkElements(limits, device::DTypeBytes(dtype)));
  }
  return bytes;
}

OrderedReduce::OrderedReduce(const Topology& topology, const ReduceLimits& limits, std::byte* scratch)
    : topology_(topology),
      slots_(topology),
      limits_(limits),
      scratch_(scratch),
      team_(topology.TeamOf(topology.rank())),
      place_(topology.rank() - topology.FirstOf(team_)),
      mates_(topology.SizeOf(team_)),
      collected_(CollectedByMate(topology)) {}

absl::Status OrderedReduce::Run(ExchangeTransport& transport, device::Tensor full, device::Tensor shard, int64_t count,
                                const SumChain& chain) {
  const Reduction reduction = {.full = full,
                               .shard = shard,
                               .count = count,
                               .chunk_elements = slots_.ChunkElements(limits_, device::DTypeBytes(full.dtype)),
                               .chain = chain};
  // Shard 0 is the longest, so every rank counts the same steps.
  const int64_t chunks = CeilDivide(ShardRange(count, topology_.size(), 0).size(), reduction.chunk_elements);
  const bool one_team = topology_.teams() == 1;
  const int64_t steps = one_team || chunks == 0 ? chunks : chunks + kExchangeDepth;
  return RunExchange(
      transport, steps,
      [&](int64_t step, ExchangeTransport::Messages& messages) {
        ListContributions(reduction, step, messages);
        if (!one_team && step >= kExchangeDepth) ListTeamSums(reduction, step - kExchangeDepth, messages);
      },
      [&](int64_t step) {
        SumRanks(transport, reduction, step);
        if (!one_team && step >= kExchangeDepth) SumTeams(transport, reduction, step - kExchangeDepth);
      });
}

// The elements of chunk `chunk` of `shard`.
Range OrderedReduce::Chunk(const Reduction& reduction, int shard, int64_t chunk) const {
  return Within(ShardRange(reduction.count, topology_.size(), shard), chunk * reduction.chunk_elements,
                reduction.chunk_elements);
}

// Where the result is narrower than `full` and lies in this rank's place inside it, it ends before the chunks that are
// still to be read.
device::Tensor OrderedReduce::Result(const Reduction& reduction, int64_t chunk) const {
  return reduction.shard.Offset(chunk * reduction.chunk_elements);
}

void OrderedReduce::ListContributions(const Reduction& reduction, int64_t chunk,
                                      ExchangeTransport::Messages& messages) const {
  const int64_t element_bytes = device::DTypeBytes(reduction.full.dtype);
  const int first = topology_.FirstOf(team_);
  // Each rank begins with a different mate.
  for (int distance = 1; distance < mates_; distance++) {
    const int to = (place_ + distance) % mates_, from = (place_ + mates_ - distance) % mates_;
    for (size_t index = 0; index < collected_[place_].size(); index++) {
      const int64_t bytes = Chunk(reduction, collected_[place_][index], chunk).size() * element_bytes;
      if (bytes == 0) continue;
      messages.incoming.push_back({first + from, Contribution(reduction, chunk, from, static_cast<int>(index)), bytes});
    }
    for (const int shard : collected_[to]) {
      const Range part = Chunk(reduction, shard, chunk);
      if (part.size() == 0) continue;
      messages.outgoing.push_back({first + to, reduction.At(part.begin), part.size() * element_bytes});
    }
  }
}

void OrderedReduce::ListTeamSums(const Reduction& reduction, int64_t chunk,
                                 ExchangeTransport::Messages& messages) const {
  const int rank = topology_.rank(), teams = topology_.teams();
  const int64_t own_bytes = Chunk(reduction, rank, chunk).size() * kSumBytes;
  for (int distance = 1; distance < teams; distance++) {
    const int to = (team_ + distance) % teams, from = (team_ + teams - distance) % teams;
    if (own_bytes > 0) {
      messages.incoming.push_back({topology_.Collector(from, rank), OtherTeamSum(reduction, chunk, from), own_bytes});
    }
    for (size_t index = 0; index < collected_[place_].size(); index++) {
      const int owner = collected_[place_][index];
      const int64_t bytes = Chunk(reduction, owner, chunk).size() * kSumBytes;
      if (topology_.TeamOf(owner) != to || bytes == 0) continue;
      messages.outgoing.push_back({owner, TeamSum(reduction, chunk, static_cast<int>(index)), bytes});
    }
  }
}

// Adds, for each shard that this rank collects, its team's contributions.
void OrderedReduce::SumRanks(ExchangeTransport& transport, const Reduction& reduction, int64_t chunk) {
  const bool one_team = topology_.teams() == 1;
  for (size_t index = 0; index < collected_[place_].size(); index++) {
    const Range part = Chunk(reduction, collected_[place_][index], chunk);
    if (part.size() == 0) continue;
    contributions_.clear();
    const int summed = reduction.chain.contributors > 0 ? reduction.chain.contributors : mates_;
    for (int mate = 0; mate < summed; mate++) {
      contributions_.push_back(mate == place_ ? reduction.At(part.begin)
                                              : Contribution(reduction, chunk, mate, static_cast<int>(index)));
    }
    if (one_team) {
      const device::Tensor result = Result(reduction, chunk);
      const float* const initial =
          reduction.chain.initial == nullptr ? nullptr : reduction.chain.initial + chunk * reduction.chunk_elements;
      // A team of one that reduces in place has nothing to add or move.
      const bool is_there = mates_ == 1 && initial == nullptr && result.data == contributions_.front() &&
                            result.dtype == reduction.full.dtype;
      if (!is_there) transport.Sum(contributions_, reduction.full.dtype, result, part.size(), initial);
    } else {
      transport.Sum(contributions_, reduction.full.dtype,
                    {TeamSum(reduction, chunk, static_cast<int>(index)), device::DType::kF32}, part.size(),
                    /*initial=*/nullptr);
    }
  }
}

// Adds the teams' sums of this rank's own shard, and rounds once.
void OrderedReduce::SumTeams(ExchangeTransport& transport, const Reduction& reduction, int64_t chunk) {
  const int rank = topology_.rank();
  const Range part = Chunk(reduction, rank, chunk);
  if (part.size() == 0) return;
  const std::vector<int>& mine = collected_[place_];
  const int own_index = static_cast<int>(std::lower_bound(mine.begin(), mine.end(), rank) - mine.begin());
  contributions_.clear();
  for (int team = 0; team < topology_.teams(); team++) {
    contributions_.push_back(team == team_ ? TeamSum(reduction, chunk, own_index)
                                           : OtherTeamSum(reduction, chunk, team));
  }
  transport.Sum(contributions_, device::DType::kF32, Result(reduction, chunk), part.size(), /*initial=*/nullptr);
}

std::byte* OrderedReduce::Contribution(const Reduction& reduction, int64_t chunk, int mate, int index) const {
  const int64_t collected = static_cast<int64_t>(collected_[place_].size());
  const int64_t slot = (chunk % kExchangeDepth * (mates_ - 1) + (mate < place_ ? mate : mate - 1)) * collected + index;
  return scratch_ + slot * reduction.chunk_elements * device::DTypeBytes(reduction.full.dtype);
}

std::byte* OrderedReduce::TeamSum(const Reduction& reduction, int64_t chunk, int index) const {
  const int64_t slot = chunk % kSumSlots * static_cast<int64_t>(collected_[place_].size()) + index;
  return Sums(reduction) + slot * reduction.chunk_elements * kSumBytes;
}

std::byte* OrderedReduce::OtherTeamSum(const Reduction& reduction, int64_t chunk, int team) const {
  const int64_t slot =
      slots_.sums + chunk % kExchangeDepth * (topology_.teams() - 1) + (team < team_ ? team : team - 1);
  return Sums(reduction) + slot * reduction.chunk_elements * kSumBytes;
}

std::byte* OrderedReduce::Sums(const Reduction& reduction) const {
  return scratch_ + slots_.contributions * reduction.chunk_elements * device::DTypeBytes(reduction.full.dtype);
}

}  // namespace zerofleet::collective
