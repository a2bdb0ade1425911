// The order of a run's samples: that of one set, or of several sets mixed in fixed proportions.
//
// Set d has the integer weight n_d. A cycle is S = sum of n_d positions, n_d of them set d's: position p lies in cycle
// c = p / S, its slot is given by a permutation of [0, S) by (seed, c), and the slot says which set, and which of the
// set's n_d samples of the cycle. Set d is thus visited in its own order (sampler.h), give or take a cycle, with epochs
// of its own. Like the sampler it has no state: any position can be computed at once, for any number of ranks.
#ifndef ZEROFLEET_WORKER_DATA_MIXTURE_H_
#define ZEROFLEET_WORKER_DATA_MIXTURE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/data/sampler.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::data {

// The most positions in a cycle.
inline constexpr int64_t kLongestCycle = 1'000'000;

class Mixture {
 public:
  // Set d holds `samples[d]` >= 1 samples, numbered behind those of the sets before it. Weights as CheckWeights allows;
  // without weights all samples are one set, in the order of Sampler(seed, number of samples), as with one weight.
  Mixture(uint64_t seed, std::span<const int64_t> samples, std::span<const int64_t> weights);

  // The sample at `position` >= 0, and its set.
  int64_t Sample(int64_t position) const;
  int Set(int64_t position) const;

  int sets() const { return static_cast<int>(sets_.size()); }
  // The set's weight; the weights are reduced to the smallest integers.
  int64_t weight(int set) const { return sets_[set].end_slot - sets_[set].first_slot; }
  int64_t samples(int set) const { return sets_[set].samples; }
  // The number of positions in [0, end) that belong to each set.
  std::vector<int64_t> Counts(int64_t end) const;

 private:
  struct OneSet {
    int64_t first_slot, end_slot;  // in the cycle, before it is permuted
    int64_t first_sample, samples;
    Sampler order;
  };
  struct Place {
    int set;
    int64_t index;  // in the set's order
  };
  Place At(int64_t position) const;

  int64_t cycle_ = 1;
  Sampler slots_{0, 1};
  std::vector<OneSet> sets_;
};

// InvalidArgument unless data.train_weights is empty, or has a weight of at least 1 for each entry of data.train, with
// a sum of at most kLongestCycle.
absl::Status CheckWeights(const v1::DataConfig& config);
// InvalidArgument unless data.validation_sets is empty, or has a name for each entry of data.validation, with entries
// of the same set next to each other.
absl::Status CheckSetNames(const v1::DataConfig& config);

}  // namespace zerofleet::data

#endif  // ZEROFLEET_WORKER_DATA_MIXTURE_H_
