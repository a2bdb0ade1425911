// The run of one seed: the fleet's shape, its budget, and the faults that may meet it.
#ifndef ZEROFLEET_TESTS_SIM_RUN_PLAN_H_
#define ZEROFLEET_TESTS_SIM_RUN_PLAN_H_

#include <cstdint>
#include <set>

#include "coordinator/partition.h"
#include "coordinator/placement.h"
#include "tests/sim/world.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::sim {

inline constexpr int64_t kElements = 48 * coordinator::kShardAlignment;
inline constexpr double kHeartbeatTimeout = 2, kFormTimeout = 20, kHangTimeout = 3;  // seconds
inline constexpr double kConnectTimeout = 60;                                        // seconds
// Longer than any write that is slow but not stalled.
inline constexpr double kStallTimeout = 8;  // seconds
inline constexpr int kAmpleRestarts = 1000;

struct RunPlan {
  v1::Config config;
  int hosts = 1;
  int64_t save_every = 2;                                 // steps
  int keep = 2;                                           // checkpoints on disk
  bool repeats = false;                                   // messages may arrive twice
  int most_inline_ranks = coordinator::kMostInlineRanks;  // workers of a larger view ask for each other's addresses
  int faults = 0;
  double nudges = 0;              // probability that a fault follows a moment that is worth one
  double last_fault = 0;          // seconds
  int second_coordinators = 0;    // how often another coordinator is started beside the one that serves
  std::set<int64_t> bad_batches;  // batches with which training diverges
  bool ample() const { return config.restart().max_per_rank() >= kAmpleRestarts; }
  int workers() const { return config.parallel().workers(); }
  int tensor() const { return static_cast<int>(config.parallel().tensor()); }
};

// Draws a run. Which seeds have snapshots, diverging batches, tensor groups, many ranks, the order of samples, two
// coordinators, or assignments without members follows from their numbers, so that drawing these changes no other run.
RunPlan DrawPlan(World& world, uint64_t seed);

}  // namespace zerofleet::sim

#endif  // ZEROFLEET_TESTS_SIM_RUN_PLAN_H_
