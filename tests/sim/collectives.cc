// Barriers that carry two flags and the step's micro-batches; see collectives.h.
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

std::map<int, int> Collectives::Unreachable(const Group& group) const {
  std::map<int, int> unreachable;
  for (const auto& [rank, arrival] : group.arrived) {
    for (const auto& [other_rank, other] : group.arrived) {
      const bool parted = arrival.sequence > 0 && parted_.contains(std::minmax(arrival.pid, other.pid));
      if (parted) unreachable[rank] = other_rank;
    }
  }
  return unreachable;
}

void Collectives::Break(uint64_t generation) {
  Group& group = groups_[generation];
  if (std::exchange(group.broken, true)) return;
  world_.After(world_.Delay(),
               [this, generation] { Finish(groups_[generation], absl::UnavailableError("a peer was lost")); });
}

// Corrupt ranks also differ from each other, so that the others are the majority if there is one.
Collectives::Outcome Collectives::Compare(const Group& group) {
  Outcome outcome;
  for (const auto& [rank, arrival] : group.arrived) {
    outcome.stop = outcome.stop || arrival.stop;
    outcome.sending = outcome.sending || arrival.sending;
    if (arrival.corrupt) outcome.disagreement.add_ranks(rank);
  }
  if (outcome.disagreement.ranks().empty()) {
    outcome.consumed = Sum(group);
    return outcome;
  }
  outcome.status = absl::AbortedError("the ranks disagree");
  if (2 * outcome.disagreement.ranks_size() < static_cast<int>(group.arrived.size())) return outcome;
  outcome.disagreement.set_undecided(true);
  outcome.disagreement.clear_ranks();
  for (const auto& [rank, arrival] : group.arrived) outcome.disagreement.add_ranks(rank);
  return outcome;
}

// Ranks of one tensor group share a number, and must bring the same micro-batches.
StepDigest Collectives::Sum(const Group& group) {
  std::map<int, const Arrival*> by_number;
  size_t rounds = 0;
  for (const auto& [rank, arrival] : group.arrived) {
    const Arrival* const first = by_number.emplace(arrival.number, &arrival).first->second;
    if (first->leaves != arrival.leaves) world_.Violate("I6: the ranks of a tensor group have different micro-batches");
    rounds = std::max(rounds, arrival.leaves.size());
  }
  StepDigest consumed(config_);
  for (size_t round = 0; round < rounds; ++round) {
    for (const auto& [number, arrival] : by_number) {
      if (round < arrival->leaves.size()) consumed.Add(arrival->leaves[round]);
    }
  }
  return consumed;
}

void Collectives::Finish(Group& group, const absl::Status& status) {
  const std::map<int, int> unreachable = status.ok() ? Unreachable(group) : std::map<int, int>();
  const absl::Status parted = absl::UnavailableError("a peer cannot be reached");
  Outcome common = Outcome{unreachable.empty() ? status : parted, false, false, {}, {}, {}, {}};
  if (common.status.ok()) common = Compare(group);
  for (auto& [rank, arrival] : std::exchange(group.arrived, {})) {
    Outcome outcome = common;
    if (const auto found = unreachable.find(rank); found != unreachable.end()) outcome.unreachable = found->second;
    world_.After(world_.Delay(), [done = std::move(arrival.done), outcome] { done(outcome); });
  }
}

}  // namespace zerofleet::sim
