// How much memory a caching allocator needs for a training run's allocations, compared with planned memory: M_D of ZeRO
// §6.3. `zerofleet bench fragmentation` prints it.
#ifndef ZEROFLEET_BENCH_MEMORY_BENCHES_H_
#define ZEROFLEET_BENCH_MEMORY_BENCHES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/allocation_trace.h"

namespace zerofleet::bench {

struct FragmentationWork {
  std::string name;
  TrainingShape shape;
};

// Models of 355M and 1558M parameters in stage 3 with every block checkpointed; each once with sequences of the
// context's length, and once with batches that are padded to their own longest sequence.
std::vector<FragmentationWork> FragmentationWorks();

// Counts activations, gathered units, gradients and buffers; the other model states are left out.
struct FragmentationResult {
  std::string name;
  int64_t events = 0;
  int64_t peak_bytes = 0;      // the most bytes that are in use at any time
  int64_t placed_bytes = 0;    // PlacedBytes of the step with the longest batch: one arena
  int64_t reserved_bytes = 0;  // what Zerofleet reserves; memory that rows share counts once
  int64_t cached_bytes = 0;    // the least limit, to 1% of the peak, above which the caching allocator never fails
  // Among the limits into which the placed arena fits and under which the caching allocator fails, the one with the
  // most free memory at the failure; 0 if there is none.
  int64_t limit_bytes = 0;
  double free_share = 0;           // free memory at that failure, as a fraction of the limit
  double fragmentation_ratio = 0;  // of that free memory; an arena's is 0
};

absl::StatusOr<FragmentationResult> BenchFragmentation(const FragmentationWork& work);

}  // namespace zerofleet::bench

#endif  // ZEROFLEET_BENCH_MEMORY_BENCHES_H_
