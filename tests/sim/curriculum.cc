// The hash; see curriculum.h.
#include "tests/sim/curriculum.h"

namespace zerofleet::sim {

uint64_t HashAfter(uint64_t state, int64_t batch) {
  uint64_t z = (state ^ static_cast<uint64_t>(batch + 1)) * 0xff51afd7ed558ccd;
  return z ^ (z >> 33);
}

double LossOf(uint64_t state) { return static_cast<double>(state >> 11); }

uint64_t Curriculum::StateAfter(int64_t steps) const {
  uint64_t state = kInitialState;
  for (int64_t done = 0; done < steps; ++done) state = HashAfter(state, left_out_.Place(0, done * kBatch) / kBatch);
  return state;
}

}  // namespace zerofleet::sim
