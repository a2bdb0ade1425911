// How fast a coordinator forms a fleet and handles its heartbeats: real gRPC over loopback, members that only
// communicate with it. `zerofleet bench coordinator` prints it.
#ifndef ZEROFLEET_BENCH_COORDINATOR_BENCHES_H_
#define ZEROFLEET_BENCH_COORDINATOR_BENCHES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace zerofleet::bench {

struct CoordinatorBenchOptions {
  int members = 16;
  int64_t heartbeats = 2000;  // per member, sent as fast as they are accepted
  std::string directory;      // for the coordinator's state; must exist
};

struct CoordinatorRate {
  int members = 0;
  double form_seconds = 0;           // from the first Hello until every member has been told to start
  double heartbeats_per_second = 0;  // of all members together
  double needed_per_second = 0;      // what the same number of real workers send at the default heartbeat timeout
};

// InvalidArgument for zero members or heartbeats; an error of the coordinator is passed on.
absl::StatusOr<CoordinatorRate> BenchCoordinator(const CoordinatorBenchOptions& options);

}  // namespace zerofleet::bench

#endif  // ZEROFLEET_BENCH_COORDINATOR_BENCHES_H_
