// The hash; see curriculum.h.
#include "tests/sim/curriculum.h"

#include "coordinator/batch_shares.h"

namespace zerofleet::sim {
namespace {

uint64_t Mix(uint64_t state, uint64_t value) {
  const uint64_t z = (state ^ (value + 1)) * 0xff51afd7ed558ccd;
  return z ^ (z >> 33);
}

}  // namespace

StepDigest::StepDigest(const v1::Config& config) : ordered_(coordinator::SumsInSampleOrder(config)) {}

void StepDigest::Add(int64_t first_sample) {
  const auto sample = static_cast<uint64_t>(first_sample);
  value_ = ordered_ ? Mix(value_, sample) : value_ + Mix(0, sample);
}

uint64_t HashAfter(uint64_t state, const StepDigest& consumed) { return Mix(state, consumed.value()); }

double LossOf(uint64_t state) { return static_cast<double>(state >> 11); }

uint64_t Curriculum::StateAfter(int64_t steps) const {
  for (auto done = static_cast<int64_t>(states_.size()) - 1; done < steps; ++done) {
    StepDigest consumed(config_);
    for (int64_t leaf = 0; leaf < coordinator::LeavesOf(config_); ++leaf) {
      consumed.Add(left_out_.Place(0, done * kBatch + leaf * config_.batch().micro_sequences()));
    }
    states_.push_back(HashAfter(states_.back(), consumed));
  }
  return states_[steps];
}

}  // namespace zerofleet::sim
