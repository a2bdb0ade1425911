// Who stands still, and for how long; see save_stalls.h.
#include "coordinator/save_stalls.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/ending.h"
#include "coordinator/failed_save.h"
#include "coordinator/recovery.h"

namespace zerofleet::coordinator {
namespace {

constexpr char kStallKey[] = "checkpoint.stall_timeout_seconds";

using Stage = PendingCommit::Stage;

double StallTimeout(const Fleet& fleet) { return fleet.parameters.config.checkpoint().stall_timeout_seconds(); }

std::string Describe(int64_t step, const PendingCommit& commit) {
  return absl::StrCat(Name(commit.stage), " of step ", step);
}

// A shard that is awaited from a rank.
struct AwaitedShard {
  int64_t step;
  double since;  // seconds: when it last made progress
};

// The rank's awaited shard: that of a save for which other ranks have reported theirs, or one that the rank says it is
// writing.
std::optional<AwaitedShard> AwaitedOf(const Fleet& fleet, const Member& member) {
  for (const auto& [step, commit] : fleet.saving.commits) {
    if (commit.stage != Stage::kCollecting || commit.shards.contains(member.rank)) continue;
    return AwaitedShard{step, std::max(commit.since, member.save_since)};
  }
  if (!member.save) return std::nullopt;
  const auto told = fleet.saving.commits.find(member.save->step());
  if (told != fleet.saving.commits.end() && told->second.shards.contains(member.rank)) return std::nullopt;
  return AwaitedShard{member.save->step(), member.save_since};
}

void CheckShards(Fleet& fleet, double now) {
  const double limit = StallTimeout(fleet);
  std::vector<MemberId> late;
  std::vector<int> ranks;
  int64_t step = 0;
  for (const Member& member : fleet.members) {
    if (member.state != MemberState::kTraining || member.failed) continue;
    const std::optional<AwaitedShard> shard = AwaitedOf(fleet, member);
    if (!shard || now - shard->since <= limit) continue;
    if (late.empty()) step = shard->step;
    late.push_back(member.id);
    ranks.push_back(member.rank);
  }
  if (late.empty()) return;
  const std::string text = absl::StrFormat("progress for %g s (%s)", limit, kStallKey);
  if (late.size() < fleet.members.size()) {
    return LoseMembers(fleet, late, absl::StrCat("its write of step ", step, " has made no ", text), "hang", now);
  }
  ++fleet.counters.rank_failures["hang"];
  const std::string none = absl::StrCat("no rank's write of step ", step, " has made ", text);
  BreakView(fleet, absl::UnavailableError(none), ranks, now);
}

// Judges the commit or removal that the storing thread is working on; it does one after another.
void CheckStorage(Fleet& fleet, double now) {
  const double limit = StallTimeout(fleet);
  for (auto& [step, commit] : fleet.saving.commits) {
    if (commit.stage == Stage::kCollecting) continue;
    const double waited = now - commit.since;
    if (waited > limit + fleet.form_timeout_seconds()) {
      const std::string text = absl::StrFormat(
          "%s has got no further for %g s (%s, and restart.form_timeout_seconds on top); %s", Describe(step, commit),
          limit + fleet.form_timeout_seconds(), kStallKey, LastCommitText(fleet));
      return FailFleet(fleet, StorageStatus(absl::StatusCode::kDataLoss, text), -1);
    }
    if (waited <= limit || commit.stall_told) continue;
    commit.stall_told = true;
    fleet.PublishNotice(
        absl::StrFormat("%s has got no further for %g s (%s): look at the storage of checkpoint.dir, %s; training goes "
                        "on until the next "
                        "save needs it, and the run ends if it stands still for %g s more; %s",
                        Describe(step, commit), limit, kStallKey, fleet.parameters.config.checkpoint().dir(),
                        fleet.form_timeout_seconds(), LastCommitText(fleet)));
  }
}

// Judges the coordinator's reading of a checkpoint that a rank could not load; the other ranks wait for its verdict.
void CheckReading(Fleet& fleet, double now) {
  if (!fleet.loading.verification || fleet.phase != Phase::kLoading) return;
  Verification& reading = *fleet.loading.verification;
  const double limit = StallTimeout(fleet), patience = fleet.form_timeout_seconds(), waited = now - reading.since;
  const auto text = [&](double seconds) {
    return absl::StrFormat("the coordinator's reading of %s, which a rank could not load, has got no further for %g s",
                           reading.path, seconds);
  };
  if (waited > limit + patience) {
    const std::string why =
        absl::StrFormat("%s (%s, and restart.form_timeout_seconds on top)", text(limit + patience), kStallKey);
    return FailFleet(fleet, StorageStatus(absl::StatusCode::kDataLoss, why), -1);
  }
  if (waited <= limit || reading.stall_told) return;
  reading.stall_told = true;
  fleet.PublishNotice(absl::StrFormat("%s (%s): look at its storage; the run ends if it stands still for %g s more",
                                      text(limit), kStallKey, patience));
}

}  // namespace

const char* Name(Stage stage) {
  switch (stage) {
    case Stage::kCollecting: return "the save";
    case Stage::kCommitting: return "the commit";
    case Stage::kDiscarding: return "the removal of the failed save";
  }
  return "";
}

void CheckSaves(Fleet& fleet, double now) {
  if (StallTimeout(fleet) == 0 || fleet.ended()) return;
  CheckStorage(fleet, now);
  CheckReading(fleet, now);
  if (fleet.ended()) return;
  const bool trains = fleet.phase == Phase::kTraining || fleet.phase == Phase::kFinishing;
  if (trains) CheckShards(fleet, now);
}

void OnStorageProgress(Fleet& fleet, double now) {
  if (fleet.loading.verification) {
    fleet.loading.verification->since = now;
    fleet.loading.verification->stall_told = false;
  }
  for (auto& [step, commit] : fleet.saving.commits) {
    if (commit.stage == Stage::kCollecting) continue;
    commit.since = now;
    commit.stall_told = false;
  }
}

void ForgiveSaves(Fleet& fleet, double delay, double now) {
  for (Member& member : fleet.members) member.save_since = std::min(now, member.save_since + delay);
  for (auto& [step, commit] : fleet.saving.commits) commit.since = std::min(now, commit.since + delay);
  if (fleet.loading.verification)
    fleet.loading.verification->since = std::min(now, fleet.loading.verification->since + delay);
}

}  // namespace zerofleet::coordinator
