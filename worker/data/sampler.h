// The order in which samples are visited: every sample once per epoch, as (seed, epoch) alone decide.
//
// Position p of the run is sample Permutation(seed, p / samples)[p % samples]. There is no state, and any position can
// be computed at once, so a resumed run or one of another world size sees the same data.
#ifndef ZEROFLEET_WORKER_DATA_SAMPLER_H_
#define ZEROFLEET_WORKER_DATA_SAMPLER_H_

#include <cstdint>

namespace zerofleet::data {

class Sampler {
 public:
  // `samples` >= 1.
  Sampler(uint64_t seed, int64_t samples);

  // The sample at `position` >= 0 of the endless sequence of epochs, in [0, samples).
  int64_t Sample(int64_t position) const;

 private:
  uint64_t Permute(uint64_t index, uint64_t epoch_key) const;

  uint64_t seed_;
  uint64_t samples_;
  int half_bits_;  // the Feistel network permutes [0, 4^half_bits), the smallest such domain that holds all samples
};

}  // namespace zerofleet::data

#endif  // ZEROFLEET_WORKER_DATA_SAMPLER_H_
