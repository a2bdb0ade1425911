// The training computation, as a hash into which each step folds the samples it consumed; and the batches with which it
// diverges.
//
// It is told what the run leaves out, and so knows the state and the loss that each step must reach, whatever happened
// on the way.
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

// The micro-batches from which a step's gradients are summed, by the place of their first sample in the run's order. In
// the order of samples the order of summation counts too; in that of ranks it differs between world sizes, and does
// not.
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
// The loss that a step reports for its state; exact in a double.
double LossOf(uint64_t state);

class Curriculum {
 public:
  Curriculum(const v1::Config& config, std::set<int64_t> bad_batches)
      : config_(config), bad_batches_(std::move(bad_batches)) {}

  // A rank has reached this batch. Returns whether its loss is not finite.
  bool Diverges(int64_t batch) {
    if (bad_batches_.contains(batch)) diverged_.insert(batch);
    return bad_batches_.contains(batch);
  }
  const std::set<int64_t>& diverged() const { return diverged_; }  // batches that have diverged so far

  // Sets what the run leaves out from now on.
  void LeaveOut(coordinator::SkippedSamples left_out) {
    left_out_ = std::move(left_out);
    states_ = {kInitialState};
  }
  const coordinator::SkippedSamples& left_out() const { return left_out_; }

  // The state after `steps` steps of a run to which nothing else happens.
  uint64_t StateAfter(int64_t steps) const;
  int64_t SamplesAfter(int64_t steps) const { return left_out_.After(0, steps * kBatch); }

 private:
  const v1::Config config_;
  const std::set<int64_t> bad_batches_;
  std::set<int64_t> diverged_;
  coordinator::SkippedSamples left_out_;
  mutable std::vector<uint64_t> states_ = {kInitialState};  // indexed by number of steps, as far as needed so far
};

}  // namespace zerofleet::sim

#endif  // ZEROFLEET_TESTS_SIM_CURRICULUM_H_
