// Collectives of a view: nobody passes one before every rank of that generation has arrived. When a rank leaves, or two
// cannot reach each other, all that wait or come later get an error.
#ifndef ZEROFLEET_TESTS_SIM_COLLECTIVES_H_
#define ZEROFLEET_TESTS_SIM_COLLECTIVES_H_

#include <cstdint>
#include <functional>
#include <map>

#include "absl/status/status.h"
#include "tests/sim/world.h"

namespace zerofleet::sim {

class Collectives {
 public:
  explicit Collectives(World& world) : world_(world) {}

  struct Arrival {
    int64_t sequence = 0;  // all ranks run the same collectives
    uint64_t state = 0;    // and have the same state
    bool stop = false;
    std::function<void(const absl::Status& status, bool stop)> done;  // stop: of any rank
  };

  void Arrive(uint64_t generation, int rank, int world_size, Arrival arrival);
  // A rank is gone, or cannot be reached.
  void Break(uint64_t generation);

 private:
  struct Group {
    std::map<int, Arrival> arrived;  // by rank
    bool broken = false;
  };

  void Finish(Group& group, const absl::Status& status);

  World& world_;
  std::map<uint64_t, Group> groups_;  // by generation
};

}  // namespace zerofleet::sim

#endif  // ZEROFLEET_TESTS_SIM_COLLECTIVES_H_
