// Collectives of a view: no rank passes one before every rank of that generation has arrived. When a rank leaves, or
// two cannot reach each other, all ranks that wait or arrive later get an error. A collective sums what the ranks
// bring, in the engine's order: by round, and within a round by rank.
#ifndef ZEROFLEET_TESTS_SIM_COLLECTIVES_H_
#define ZEROFLEET_TESTS_SIM_COLLECTIVES_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tests/sim/curriculum.h"
#include "tests/sim/world.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::sim {

class Collectives {
 public:
  Collectives(World& world, const v1::Config& config) : world_(world), config_(config) {}

  struct Outcome {
    absl::Status status;
    bool stop = false, sending = false;        // true if any rank's is
    v1::Disagreement disagreement;             // if the status is not OK: which ranks every rank found to differ
    std::optional<int> unreachable;            // the rank that this one could not reach
    std::optional<v1::Divergence> divergence;  // the divergence that every rank found in the step
    std::optional<StepDigest> consumed;        // if the status is OK
  };
  struct Arrival {
    int64_t pid = 0;
    int64_t sequence = 0;  // all ranks run the same collectives; 0: entering the view
    uint64_t state = 0;    // all ranks have the same state
    bool stop = false, sending = false;
    int number = 0;                    // the rank's number in its data group
    std::vector<int64_t> leaves = {};  // the first sample of each of its micro-batches that count, by round
    bool corrupt = false;              // this rank's results are wrong, which the ranks find by comparing
    std::function<void(const Outcome& outcome)> done;
  };

  void Arrive(uint64_t generation, int rank, int world_size, Arrival arrival);
  // Called when a rank is gone, or cannot be reached.
  void Break(uint64_t generation);
  // From now on these two processes cannot reach each other, in any view.
  void Part(int64_t one, int64_t other) { parted_.insert(std::minmax(one, other)); }

 private:
  struct Group {
    std::map<int, Arrival> arrived;  // keyed by rank
    bool broken = false;
  };

  void Finish(Group& group, const absl::Status& status);
  // For each rank that cannot reach another: that other rank.
  std::map<int, int> Unreachable(const Group& group) const;
  Outcome Compare(const Group& group);
  StepDigest Sum(const Group& group);

  World& world_;
  const v1::Config& config_;
  std::map<uint64_t, Group> groups_;  // keyed by generation
  std::set<std::pair<int64_t, int64_t>> parted_;
};

}  // namespace zerofleet::sim

#endif  // ZEROFLEET_TESTS_SIM_COLLECTIVES_H_
