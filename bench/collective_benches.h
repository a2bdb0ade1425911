// The bandwidth of collectives between processes, on this machine or on several, next to the memory bandwidth.
// `zerofleet bench collectives` prints it.
//
// Bus bandwidth as nccl-tests defines it: bytes / seconds * (n-1)/n for an all-gather and a reduce-scatter, twice
// that for an all-reduce; so it is comparable across world sizes. Times are the best of several rounds, each as long as
// its slowest rank: other work on the machine only ever makes a round slower.
#ifndef ZEROFLEET_BENCH_COLLECTIVE_BENCHES_H_
#define ZEROFLEET_BENCH_COLLECTIVE_BENCHES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/collective/communicator.h"
#include "worker/device/dtype.h"

namespace zerofleet::bench {

struct CollectiveBenchOptions {
  std::string backend = "auto";  // as the configuration spells it
  int ranks = 2;
  int rounds = 6;
  // Ranks per team, 0 or less than `ranks`. If not 0, every operation is measured twice: with all ranks as one team on
  // one node, and in two levels, each team on a node of its own.
  int team = 0;
  std::vector<int64_t> sizes_bytes = {64 << 10, 1 << 20, 16 << 20, 256 << 20};  // whole arrays
};

struct CollectiveRate {
  std::string backend;
  collective::Operation operation;
  device::DType dtype;
  int ranks, team;  // ranks per team: all ranks if there is one level
  int64_t bytes;
  double seconds;
  double bus_bytes_per_second;
  double memory_bytes_per_second;  // of a[i] = b[i] + c[i] (three streams) on all ranks at once, summed over ranks
};

// Forks one process per rank, so the caller must have no threads whose locks matter. A rank that fails is reported as
// Internal with its number.
absl::StatusOr<std::vector<CollectiveRate>> BenchCollectives(const CollectiveBenchOptions& options);

// One rank of a group whose ranks run on several hosts, in this process: it meets the others at `meeting_place`, the
// HOST:PORT of a RendezvousServer (services/session/rendezvous.h), which also says how many there are. `host` is this
// host's name, for messages; `cancelled` is polled while waiting for the others. Unavailable if a rank leaves early.
// Every rank returns the same figures.
absl::StatusOr<std::vector<CollectiveRate>> BenchCollectivesAcrossHosts(const CollectiveBenchOptions& options,
                                                                        const std::string& meeting_place,
                                                                        const std::string& host,
                                                                        const std::function<bool()>& cancelled);

}  // namespace zerofleet::bench

#endif  // ZEROFLEET_BENCH_COLLECTIVE_BENCHES_H_
