// Comparing the ranks' progress; see hang.h.
#include "coordinator/hang.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace zerofleet::coordinator {
namespace {

// How late a rank may be if no limit is configured: far more than steps of a healthy run differ.
constexpr double kHangHeartbeatTimeouts = 30, kHangSteps = 10;

const v1::GroupProgress* ProgressIn(const Member& member, const std::string& group) {
  for (const v1::GroupProgress& progress : member.progress) {
    if (progress.group() == group) return &progress;
  }
  return nullptr;
}

// "rank 1", "ranks 0 and 2", "ranks 0, 1 and 3"
std::string Ranks(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return absl::StrCat("rank ", ranks[0]);
  if (ranks.size() > kMostNamed) {
    return absl::StrCat("ranks ", absl::StrJoin(ranks.begin(), ranks.begin() + kMostNamed, ", "), " and ",
                        ranks.size() - kMostNamed, " more");
  }
  std::vector<int> head(ranks.begin(), ranks.end() - 1);
  return absl::StrCat("ranks ", absl::StrJoin(head, ", "), " and ", ranks.back());
}

// A group's name, and its number among the groups of that name.
using GroupKey = std::pair<std::string, int>;

GroupKey KeyOf(const Fleet& fleet, const Member& member, const std::string& group) {
  const bool placed = fleet.view && member.rank >= 0;
  return {group, placed ? fleet.view->axes.GroupNumber(member.rank, group) : 0};
}

bool WaitsElsewhere(const Member& member, const std::string& group) {
  return std::any_of(member.progress.begin(), member.progress.end(), [&group](const v1::GroupProgress& progress) {
    return progress.group() != group && progress.sequence() > progress.completed();
  });
}

struct GroupWait {
  Wait wait;
  std::vector<int> first;  // those of the missing that wait for nobody in another group
};

// Adds a member of the group to the waiting or to the missing ranks.
void Join(const Member& member, GroupWait& group) {
  Wait& wait = group.wait;
  const v1::GroupProgress* progress = ProgressIn(member, wait.group);
  if (progress == nullptr || progress->sequence() < wait.sequence) {
    wait.missing.push_back(member.rank);
    if (!WaitsElsewhere(member, wait.group)) group.first.push_back(member.rank);
  } else if (progress->sequence() == wait.sequence && progress->completed() < wait.sequence) {
    wait.waiting.push_back(member.rank);
    wait.since = std::max(wait.since, member.progress_since);
  }
}

// Whether all ranks are saving after the last step done, or after the one before it, and none has reported its shard
// yet.
bool AllAreSaving(const Fleet& fleet) {
  const int64_t every = fleet.parameters.config.checkpoint().every_steps();
  if (every <= 0) return false;
  const int64_t done = fleet.training.last_step_event.step(), due = done / every * every;
  if (done > due + 1) return false;  // the update of a step this far on waited for no save
  const int64_t settled =
      std::max(fleet.saving.last_committed_step, fleet.saving.failed_save ? fleet.saving.failed_save->step : 0);
  return due > std::max(fleet.training.start_step, settled) && !fleet.saving.commits.contains(due);
}

}  // namespace

std::optional<Wait> FindWait(const Fleet& fleet) {
  std::map<GroupKey, GroupWait> waits;  // each group's furthest
  std::set<std::string> groups;         // the groups' names
  for (const Member& member : fleet.members) {
    for (const v1::GroupProgress& progress : member.progress) {
      if (progress.sequence() <= progress.completed()) continue;
      groups.insert(progress.group());
      Wait& wait = waits[KeyOf(fleet, member, progress.group())].wait;
      if (progress.sequence() <= wait.sequence) continue;
      wait = {progress.group(), progress.operation(), progress.unit(), progress.sequence(), {}, {}, 0};
    }
  }
  for (const Member& member : fleet.members) {
    for (const std::string& group : groups) {
      const auto found = waits.find(KeyOf(fleet, member, group));
      if (found != waits.end()) Join(member, found->second);
    }
  }
  std::optional<Wait> furthest;
  for (auto& [key, group] : waits) {
    if (group.wait.missing.empty() || group.wait.waiting.empty()) continue;
    if (!group.first.empty()) {
      group.wait.missing = std::move(group.first);
      return group.wait;
    }
    if (!furthest) furthest = group.wait;
  }
  return furthest;
}

std::string Describe(const Wait& wait) {
  std::string where = wait.unit.empty() ? wait.operation : absl::StrCat(wait.operation, " of ", wait.unit);
  return absl::StrCat(Ranks(wait.missing), wait.missing.size() == 1 ? " has" : " have", " not arrived at ", where,
                      " (group ", wait.group, ", sequence ", wait.sequence, "); ", Ranks(wait.waiting),
                      wait.waiting.size() == 1 ? " waits" : " wait", " in it");
}

double HangLimit(const Fleet& fleet) {
  const double configured = fleet.parameters.config.restart().hang_timeout_seconds();
  if (configured > 0) return configured;
  return std::max(kHangHeartbeatTimeouts * fleet.heartbeat_timeout_seconds(),
                  kHangSteps * fleet.training.last_step_event.seconds());
}

// If storage is slow for one rank, the others wait in the collective after the save, or in the one after the update
// that a streamed save holds back, at a time when no shard may be written yet.
bool IsSaving(const Fleet& fleet, int rank) {
  return AllAreSaving(fleet) || std::any_of(fleet.saving.commits.begin(), fleet.saving.commits.end(),
                                            [rank](const auto& entry) { return !entry.second.shards.contains(rank); });
}

}  // namespace zerofleet::coordinator
