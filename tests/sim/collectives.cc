// Barriers that carry a stop flag; see collectives.h.
#include "tests/sim/collectives.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace zerofleet::sim {

void Collectives::Arrive(uint64_t generation, int rank, int world_size, Arrival arrival) {
  Group& group = groups_[generation];
  if (!group.arrived.empty()) {
    const Arrival& other = group.arrived.begin()->second;
    if (other.sequence != arrival.sequence || other.state != arrival.state) {
      world_.Violate(absl::StrCat("I6: the ranks of generation ", generation, " meet at steps ", other.sequence,
                                  " and ", arrival.sequence, ", or with different states"));
    }
  }
  if (!group.arrived.emplace(rank, std::move(arrival)).second) {
    world_.Violate(absl::StrCat("I5: two workers are rank ", rank, " of generation ", generation));
  }
  if (group.broken) return Finish(group, absl::UnavailableError("a peer was lost"));
  if (static_cast<int>(group.arrived.size()) == world_size) Finish(group, absl::OkStatus());
}

void Collectives::Break(uint64_t generation) {
  Group& group = groups_[generation];
  if (std::exchange(group.broken, true)) return;
  world_.After(world_.Delay(),
               [this, generation] { Finish(groups_[generation], absl::UnavailableError("a peer was lost")); });
}

void Collectives::Finish(Group& group, const absl::Status& status) {
  bool stop = false;
  for (const auto& [rank, arrival] : group.arrived) stop = stop || arrival.stop;
  for (auto& [rank, arrival] : std::exchange(group.arrived, {})) {
    world_.After(world_.Delay(), [done = std::move(arrival.done), status, stop] { done(status, stop); });
  }
}

}  // namespace zerofleet::sim
