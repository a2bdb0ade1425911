// How a coordinator bears many workers: forming a view, forming it again after a loss, and heartbeats, over real gRPC
// from sessions without a model (services/session/session_swarm.h). What it takes is read from its process's figures,
// so it should have one of its own. `zerofleet bench coordinator` starts that, and prints it.
#ifndef ZEROFLEET_BENCH_COORDINATOR_BENCHES_H_
#define ZEROFLEET_BENCH_COORDINATOR_BENCHES_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace zerofleet::bench {

struct CoordinatorBenchOptions {
  std::string coordinator;  // HOST:PORT; it waits for `members` workers, and for one spare
  pid_t pid = 0;            // its process
  int members = 16;
  int sessions_per_connection = 1;        // 1 to 32; the workers of a run have one
  int peers = 0;                          // whose addresses each asks for in a view; 0 to 64
  int losses = 3;                         // one after the other
  double heartbeats_per_second = 10'000;  // of all members together
  double heartbeat_seconds = 5;           // for so long
};

struct CoordinatorRate {
  int members = 0;
  int connections = 0;
  double view_seconds = 0;         // from the first connection until the last member has its place
  double start_seconds = 0;        // until the last has been told to train
  double reform_seconds = 0;       // from a loss until the last member has its place again: the median
  double reform_most_seconds = 0;  // the longest
  double heartbeats_per_second = 0;
  double heartbeat_cores = 0;  // busy meanwhile in the coordinator: 1 is one core
  // Resident memory of the coordinator's process: with the fleet formed, after all else, and the most it ever was.
  int64_t formed_bytes = 0, last_bytes = 0, peak_bytes = 0;
};

// InvalidArgument for options out of range; an error of the coordinator or of a session is passed on. Finishes the run.
absl::StatusOr<CoordinatorRate> BenchCoordinator(const CoordinatorBenchOptions& options);

}  // namespace zerofleet::bench

#endif  // ZEROFLEET_BENCH_COORDINATOR_BENCHES_H_
