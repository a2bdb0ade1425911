// The speed of writing and reading one rank's shard of a checkpoint, against that of the disk itself. `zerofleet bench
// checkpoint` prints it.
//
// Writing includes making the bytes durable. Reading copies, hashes and checks, as a resume does; the file was just
// written and comes from the page cache, so this is the speed of the reader, not of a cold disk.
#ifndef ZEROFLEET_BENCH_CHECKPOINT_BENCHES_H_
#define ZEROFLEET_BENCH_CHECKPOINT_BENCHES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace zerofleet::bench {

struct CheckpointBenchOptions {
  std::string directory;      // on the disk to measure; files that are written there are removed
  int64_t bytes = 512 << 20;  // bytes of the shard's data, which are AdamW's states
};

struct CheckpointRate {
  int64_t bytes = 0;
  double write_bytes_per_second = 0, read_bytes_per_second = 0;
  double disk_bytes_per_second = 0;  // a plain sequential write and fsync of as many bytes, in the same run
};

// InvalidArgument for fewer bytes than one parameter takes, or for a path that is not a directory; an error of the
// disk names the path.
absl::StatusOr<CheckpointRate> BenchCheckpoint(const CheckpointBenchOptions& options);

}  // namespace zerofleet::bench

#endif  // ZEROFLEET_BENCH_CHECKPOINT_BENCHES_H_
