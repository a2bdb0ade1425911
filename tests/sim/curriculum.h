// What training computes, as a hash that every step folds what it consumed into, and with which batches it diverges.
//
// It hears what the run is told to leave out, and so knows the state and the loss that each step must come to, whatever
// happened on the way.
#ifndef ZEROFLEET_TESTS_SIM_CURRICULUM_H_
#define ZEROFLEET_TESTS_SIM_CURRICULUM_H_

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "coordinator/skipped_samples.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::sim {

inline constexpr int64_t kBatch = 48;  // samples; shared by 1, 2, 3, 4, 6, 8, 12 or 16 ranks
inline constexpr uint64_t kInitialState = 0x5eed;

// What a step's gradients are summed from: micro-batches, by the place of their first sample in the run's order. In the
// order of samples the order in which they are summed counts too; in that of ranks it is another at each world size.
class StepDigest {
 public:
  explicit StepDigest(const v1::Config& config);
  void Add(int64_t first_sample);
  uint64_t value() const { return value_; }

 private:
  bool ordered_;
  uint64_t value_ = 0;
};

// The training state after one more step.
uint64_t HashAfter(uint64_t state, const StepDigest& consumed);
// What a step reports of its state: exact in a double.
double LossOf(uint64_t state);

class Curriculum {
 public:
  Curriculum(const v1::Config& config, std::set<int64_t> bad_batches)
      : config_(config), bad_batches_(std::move(bad_batches)) {}

  // A rank has come to this batch: whether its loss is not finite.
  bool Diverges(int64_t batch) {
    if (bad_batches_.contains(batch)) diverged_.insert(batch);
    return bad_batches_.contains(batch);
  }
  const std::set<int64_t>& diverged() const { return diverged_; }  // so far

  // What the run leaves out from now on.
  void LeaveOut(coordinator::SkippedSamples left_out) {
    left_out_ = std::move(left_out);
    states_ = {kInitialState};
  }
  const coordinator::SkippedSamples& left_out() const { return left_out_; }

  // After so many steps of a run to which nothing else happens.
  uint64_t StateAfter(int64_t steps) const;
  int64_t SamplesAfter(int64_t steps) const { return left_out_.After(0, steps * kBatch); }

 private:
  const v1::Config config_;
  const std::set<int64_t> bad_batches_;
  std::set<int64_t> diverged_;
  coordinator::SkippedSamples left_out_;
  mutable std::vector<uint64_t> states_ = {kInitialState};  // by the number of steps, as far as anybody has asked
};

}  // namespace zerofleet::sim

#endif  // ZEROFLEET_TESTS_SIM_CURRICULUM_H_
