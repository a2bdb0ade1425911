// What a caching allocator makes of a training run's allocations, beside memory that is planned: M_D of ZeRO §6.3.
// `zerofleet bench fragmentation` prints it.
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

// Models of 355M and 1558M parameters in stage 3 with a checkpoint per block: sequences all of the context's length,
// and batches padded to their own longest sequence.
std::vector<FragmentationWork> FragmentationWorks();

// Activations, gathered units, gradients and buffers; the model states' other parts are left out.
struct FragmentationResult {
  std::string name;
  int64_t events = 0;
  int64_t peak_bytes = 0;      // the most that the run has in use at a time
  int64_t placed_bytes = 0;    // one arena with a place for every tensor of the longest batch's step (PlacedBytes)
  int64_t reserved_bytes = 0;  // what Zerofleet reserves: no two rows share memory, and each has what its overlap takes
  int64_t cached_bytes =
      0;  // the smallest limit, in hundredths of the peak, from which on the caching allocator serves the run
  // A limit that the placed arena fits in and the caching allocator fails under: the one with most memory free at the
  // failure; 0 if there is none.
  int64_t limit_bytes = 0;
  double free_share = 0;           // of the limit
  double fragmentation_ratio = 0;  // of the free memory; that of an arena is 0
};

absl::StatusOr<FragmentationResult> BenchFragmentation(const FragmentationWork& work);

}  // namespace zerofleet::bench

#endif  // ZEROFLEET_BENCH_MEMORY_BENCHES_H_
