// How many ranks may share a step's batch, and in how many micro-batches each.
//
// In the order of ranks every rank has as many micro-batches. In the order of samples (reduce.order) the number of
// ranks changes no bit and need not divide them: a step's micro-batches, its leaves, are dealt out one to each rank in
// rounds, and in the last round ranks may have none.
#ifndef ZEROFLEET_COORDINATOR_BATCH_SHARES_H_
#define ZEROFLEET_COORDINATOR_BATCH_SHARES_H_

#include <algorithm>
#include <cstdint>

#include "base/units.h"
#include "coordinator/batch_schedule.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::coordinator {

inline bool SumsInSampleOrder(const v1::Config& config) { return config.reduce().order() == "samples"; }

// Micro-batches of all ranks, of a step of so many sequences; or of the largest step.
inline int64_t LeavesOf(const v1::Config& config, int64_t sequences) {
  return sequences / config.batch().micro_sequences();
}
inline int64_t LeavesOf(const v1::Config& config) { return LeavesOf(config, MostSequences(config.batch())); }

// Micro-batches of each rank of a data group of `ranks`, or of those that have most.
inline int64_t MicroBatchesOf(const v1::Config& config, int64_t ranks, int64_t sequences) {
  const int64_t leaves = LeavesOf(config, sequences);
  return SumsInSampleOrder(config) ? CeilDivide(leaves, ranks) : leaves / ranks;
}
inline int64_t MicroBatchesOf(const v1::Config& config, int64_t ranks) {
  return MicroBatchesOf(config, ranks, MostSequences(config.batch()));
}

// Where in a batch of `sequences` the micro-batch begins that a rank computes in a round, in sequences. `number` is the
// rank's in its data group of `ranks`. In the order of samples one that is left without in the last round repeats
// another's.
inline int64_t FirstSequenceOf(const v1::Config& config, int64_t ranks, int64_t number, int64_t round,
                               int64_t sequences) {
  const int64_t micro = config.batch().micro_sequences();
  if (SumsInSampleOrder(config)) return (round * ranks + number) % LeavesOf(config, sequences) * micro;
  return number * (sequences / ranks) + round * micro;
}

// Sequences of a batch of `sequences` that count as rank `number`'s; over the data group they add up to all.
inline int64_t SequencesOfRank(const v1::Config& config, int64_t ranks, int64_t number, int64_t sequences) {
  if (!SumsInSampleOrder(config)) return sequences / ranks;
  return CeilDivide(std::max<int64_t>(LeavesOf(config, sequences) - number, 0), ranks) *
         config.batch().micro_sequences();
}

// How many of a data group's ranks, the first ones, compute a leaf that counts in a round.
inline int64_t RanksInRound(int64_t leaves, int64_t ranks, int64_t round) {
  return std::min(ranks, leaves - round * ranks);
}

// The part of those ranks' micro-batches that counts: 1, or less where some idle in the last round.
inline double RoundEfficiency(const v1::Config& config, int64_t ranks) {
  return static_cast<double>(LeavesOf(config)) / static_cast<double>(MicroBatchesOf(config, ranks) * ranks);
}

// Whether a data group of `ranks` can share every batch there may be.
inline bool CanShare(const v1::Config& config, int64_t ranks) {
  const int64_t together = SumsInSampleOrder(config) ? 1 : ranks;
  const int64_t round = together * config.batch().micro_sequences();
  if (ranks <= 0 || round <= 0 || config.batch().global_sequences() % round != 0) return false;
  for (const int64_t sequences : config.batch().schedule()) {
    if (sequences % round != 0) return false;
  }
  return true;
}

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_BATCH_SHARES_H_
