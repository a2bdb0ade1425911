// Who holds what, step by step; see snapshots.h.
#include "coordinator/snapshots.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace zerofleet::coordinator {
namespace {

using google::protobuf::util::MessageDifferencer;

// Whether a rank has its part of a snapshot itself, and who else has it.
struct Holder {
  bool own = false;
  std::string copy;  // a service address; empty: nobody
};
using Holders = std::map<int, Holder>;  // one snapshot's holders, by rank

void Note(const Member& member, const v1::SnapshotShard& shard, Holders& holders) {
  if (shard.rank() == member.rank) {
    holders[shard.rank()].own = true;
  } else if (!member.hello.service_address().empty()) {
    holders[shard.rank()].copy = member.hello.service_address();
  }
}

// Whether the run has passed through this state: the view that trained last has taken it, or began from it. A worker
// that was cut off for long may hold snapshots of steps that were repeated since, for example without samples that a
// rollback leaves out.
bool IsOfThisRun(const Fleet& fleet, const v1::SnapshotId& id) {
  if (id.generation() == fleet.training.generation) return true;
  return fleet.training.start.has_loaded() && MessageDifferencer::Equals(id, fleet.training.start.loaded());
}

}  // namespace

std::optional<SnapshotChoice> NewestSnapshot(const Fleet& fleet) {
  // Which snapshots are whole depends on timing, and the samples that a rollback leaves out must not.
  if (fleet.recovering.going_back()) return std::nullopt;
  // The newest step whose loss was reported: later ones are repeated.
  const int64_t told = std::max(fleet.training.last_step_event.step(), fleet.training.start_step);
  std::map<std::pair<int64_t, uint64_t>, Holders> snapshots;  // by step, then generation
  for (const Member& member : fleet.members) {
    for (const v1::SnapshotShard& shard : member.ready.snapshots()) {
      const v1::SnapshotId& id = shard.snapshot();
      const bool fits = shard.world_size() == fleet.world_size() && shard.rank() >= 0 &&
                        shard.rank() < fleet.world_size() && id.generation() < fleet.generation && id.step() >= 0 &&
                        id.step() <= told && IsOfThisRun(fleet, id);
      if (fits) Note(member, shard, snapshots[{id.step(), id.generation()}]);
    }
  }
  for (auto newest = snapshots.rbegin(); newest != snapshots.rend(); ++newest) {
    if (static_cast<int>(newest->second.size()) < fleet.world_size()) continue;
    SnapshotChoice choice;
    choice.id.set_step(newest->first.first);
    choice.id.set_generation(newest->first.second);
    for (const auto& [rank, holder] : newest->second) {
      choice.holders.push_back(holder.own ? "" : holder.copy);
      choice.copies.push_back(holder.copy);
    }
    return choice;
  }
  return std::nullopt;
}

}  // namespace zerofleet::coordinator
