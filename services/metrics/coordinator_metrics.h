// The coordinator's metrics: a row each in a table over the fleet's state. To add one, add a row.
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

  // Sets them all from the fleet's state. One thread at a time.
  void Observe(const coordinator::Fleet& fleet, double now);

  // A client that was turned away, by one of Refusals::kCauses. From any thread.
  void CountRefusal(const char* cause);

  // The newest committed checkpoint's time. From any thread.
  void SetLastCommit(int64_t unix_seconds);

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_METRICS_COORDINATOR_METRICS_H_
