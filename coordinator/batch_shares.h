// How many ranks may share a step's batch, and in how many micro-batches each.
//
// With `reduce.order: ranks` every rank has the same number of micro-batches. With `reduce.order: samples` the number
// of ranks changes no bit and need not divide the micro-batches: a step's micro-batches (its leaves) are dealt out in
// rounds, one to each rank, and in the last round some ranks may have none.
#ifndef ZEROFLEET_COORDINATOR_BATCH_SHARES_H_
#define ZEROFLEET_COORDINATOR_BATCH_SHARES_H_

#include <algorithm>
#include <cstdint>

#include "base/units.h"
#include "coordinator/batch_schedule.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::coordinator {

inline bool SumsInSampleOrder(const v1::Config& config) { return config.reduce().order() == "samples"; }

// Micro-batches, over all ranks, of a step of `sequences`, or of the largest step.
inline int64_t LeavesOf(const v1::Config& config, int64_t sequences) {
  return sequences / config.batch().micro_sequences();
}
inline int64_t LeavesOf(const v1::Config& config) { return LeavesOf(config, MostSequences(config.batch())); }

// Micro-batches of each rank of a data group of `ranks`; if they differ, the most that a rank has.
inline int64_t MicroBatchesOf(const v1::Config& config, int64_t ranks, int64_t sequences) {
  const int64_t leaves = LeavesOf(config, sequences);
  return SumsInSampleOrder(config) ? CeilDivide(leaves, ranks) : leaves / ranks;
}
inline int64_t MicroBatchesOf(const v1::Config& config, int64_t ranks) {
  return MicroBatchesOf(config, ranks, MostSequences(config.batch()));
}

// Where the micro-batch that a rank computes in a round begins in a batch of `sequences`, counted in sequences.
// `number` is the rank's number in its data group of `ranks`. With `reduce.order: samples` a rank that has none in the
// last round repeats another's.
inline int64_t FirstSequenceOf(const v1::Config& config, int64_t ranks, int64_t number, int64_t round,
                               int64_t sequences) {
  const int64_t micro = config.batch().micro_sequences();
  if (SumsInSampleOrder(config)) return (round * ranks + number) % LeavesOf(config, sequences) * micro;
  return number * (sequences / ranks) + round * micro;
}

// How many sequences of a batch of `sequences` count as rank `number`'s; over the data group these add up to
// `sequences`.
inline int64_t SequencesOfRank(const v1::Config& config, int64_t ranks, int64_t number, int64_t sequences) {
  if (!SumsInSampleOrder(config)) return sequences / ranks;
  return CeilDivide(std::max<int64_t>(LeavesOf(config, sequences) - number, 0), ranks) *
         config.batch().micro_sequences();
}

// How many of a data group's ranks, the first ones, compute a leaf that counts in a round.
inline int64_t RanksInRound(int64_t leaves, int64_t ranks, int64_t round) {
  return std::min(ranks, leaves - round * ranks);
}

// The share of the ranks' micro-batches that count, in the largest step: 1, or less if some ranks idle in the last
// round.
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
