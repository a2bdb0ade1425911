// How a coordinator copes with many workers: it forms a view, forms it again after a loss, and receives heartbeats,
// over real gRPC from sessions without a model (services/session/session_swarm.h). Its load is read from the figures of
// its process, so it should have a process of its own. `zerofleet bench coordinator` starts one, and prints the
// figures.
#ifndef ZEROFLEET_BENCH_COORDINATOR_BENCHES_H_
#define ZEROFLEET_BENCH_COORDINATOR_BENCHES_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace zerofleet::bench {

struct CoordinatorBenchOptions {
  std::string coordinator;  // HOST:PORT of a coordinator that waits for `members` workers and one spare
  pid_t pid = 0;            // the coordinator's process
  int members = 16;
  int sessions_per_connection = 1;        // 1 to 32; the workers of a run have a connection each
  int peers = 0;                          // number of peers whose addresses each member requests in a view; 0 to 64
  int losses = 3;                         // members to lose, one after the other
  double heartbeats_per_second = 10'000;  // over all members
  double heartbeat_seconds = 5;           // how long heartbeats are sent
};

struct CoordinatorRate {
  int members = 0;
  int connections = 0;
  double view_seconds = 0;         // from the first connection until the last member has its rank
  double start_seconds = 0;        // from the first connection until the last member has been told to train
  double reform_seconds = 0;       // from a loss until the last member has its rank again: the median
  double reform_most_seconds = 0;  // the longest such time
  double heartbeats_per_second = 0;
  double heartbeat_cores = 0;  // cores that the coordinator keeps busy meanwhile
  // Resident memory of the coordinator's process: once the fleet has formed, at the end, and its peak.
  int64_t formed_bytes = 0, last_bytes = 0, peak_bytes = 0;
};

// InvalidArgument for options out of range; an error of the coordinator or of a session is passed on. Finishes the run.
absl::StatusOr<CoordinatorRate> BenchCoordinator(const CoordinatorBenchOptions& options);

}  // namespace zerofleet::bench

#endif  // ZEROFLEET_BENCH_COORDINATOR_BENCHES_H_
