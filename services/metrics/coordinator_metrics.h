// The coordinator's metrics: most are rows in tables over the fleet's state. To add one, add a row.
#ifndef ZEROFLEET_SERVICES_METRICS_COORDINATOR_METRICS_H_
#define ZEROFLEET_SERVICES_METRICS_COORDINATOR_METRICS_H_

#include <cstdint>
#include <memory>

#include "coordinator/fleet.h"

namespace prometheus {
class Registry;
}

namespace zerofleet::services {

class CoordinatorMetrics {
 public:
  // Registers every metric in `registry`, which outlives this.
  explicit CoordinatorMetrics(prometheus::Registry& registry);
  ~CoordinatorMetrics();

  // Sets all metrics from the fleet's state. From one thread at a time.
  void Observe(const coordinator::Fleet& fleet, double now);

  // Counts a refused client; `cause` is one of Refusals::kCauses. From any thread.
  void CountRefusal(const char* cause);

  // Sets the time of the newest commit. From any thread.
  void SetLastCommit(int64_t unix_seconds);

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_METRICS_COORDINATOR_METRICS_H_
