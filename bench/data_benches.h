// How fast one thread makes batches from token files, against plain reads of the files. `zerofleet bench data` prints
// it.
//
// The files were just written, so they come from the page cache: this does not show a disk that is slower than a run
// reads.
#ifndef ZEROFLEET_BENCH_DATA_BENCHES_H_
#define ZEROFLEET_BENCH_DATA_BENCHES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace zerofleet::bench {

struct DataBenchOptions {
  std::string directory;        // for the files, which are removed at the end
  int64_t tokens = 64'000'000;  // in all files together; a token has 2 bytes
  int64_t context = 1024;
  int64_t micro_sequences = 8;  // samples in a batch
};

struct DataRate {
  std::string order;  // "one set", "two sets", "packed documents"
  double tokens_per_second = 0;
  // Plain reads of as many bytes at the samples' places, in the same run.
  double read_tokens_per_second = 0;
  // The share of its time that the thread that makes batches is busy, in a run that takes a million tokens per second.
  double share_at_a_million() const { return 1e6 / tokens_per_second; }
};

// The best of `rounds` rounds, each over all samples once. InvalidArgument for a path that is not a directory, and for
// fewer tokens than about four batches have.
absl::StatusOr<std::vector<DataRate>> BenchData(const DataBenchOptions& options, int rounds);

}  // namespace zerofleet::bench

#endif  // ZEROFLEET_BENCH_DATA_BENCHES_H_
