// Evicting the wrong, or nobody; see disagreement.h.
#include "coordinator/disagreement.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/recovery.h"

namespace zerofleet::coordinator {
namespace {

constexpr double kReportHeartbeatTimeouts = 0.5;

// The ranks of the view that a report names.
std::set<int> NamedBy(const Fleet& fleet, const v1::Failure& failure) {
  std::set<int> named;
  for (const int rank : failure.disagreement().ranks()) {
    if (rank >= 0 && rank < fleet.world_size()) named.insert(rank);
  }
  return named;
}

// The report that more than half of the reporters agree with; null if there is none.
const v1::Failure* Majority(const Fleet& fleet, const Verdicts& verdicts) {
  std::map<std::pair<bool, std::set<int>>, std::vector<const v1::Failure*>> same;
  for (const auto& [reporter, report] : verdicts.reports) {
    same[{report.disagreement().undecided(), NamedBy(fleet, report)}].push_back(&report);
  }
  for (const auto& [verdict, reports] : same) {
    if (2 * reports.size() > verdicts.reports.size()) return reports.front();
  }
  return nullptr;
}

void Decide(Fleet& fleet, double now) {
  constexpr char kCounter[] = "integrity";
  const Verdicts verdicts = *std::exchange(fleet.verdicts, std::nullopt);
  const v1::Failure* const majority = Majority(fleet, verdicts);
  std::set<int> named;
  for (const auto& [reporter, report] : verdicts.reports) {
    if (majority == nullptr) named.merge(NamedBy(fleet, report));
  }
  if (majority != nullptr) named = NamedBy(fleet, *majority);
  // Not all can be wrong.
  const bool all = static_cast<int>(named.size()) == fleet.world_size();
  if (majority != nullptr && !majority->disagreement().undecided() && !all) {
    std::vector<MemberId> members;
    for (const int rank : named) members.push_back(fleet.members[rank].id);
    return LoseMembers(fleet, members, majority->message(), kCounter, now);
  }
  ++fleet.counters.rank_failures[kCounter];
  const std::string text = majority != nullptr
                               ? majority->message()
                               : verdicts.reports.begin()->second.message() + "; the ranks' verdicts differ";
  BreakView(fleet, absl::UnavailableError(text), {named.begin(), named.end()}, now);
}

bool MayReport(const Member& member) { return !member.failed && !member.closed && member.state != MemberState::kLost; }

}  // namespace

bool OnDisagreement(Fleet& fleet, const Member& member, const v1::Failure& failure, double now) {
  if (!fleet.view || member.rank < 0 || NamedBy(fleet, failure).empty()) return false;
  fleet.memory_is_doubted = true;
  if (!fleet.verdicts) {
    fleet.verdicts = Verdicts{now + kReportHeartbeatTimeouts * fleet.heartbeat_timeout_seconds(), {}};
  }
  fleet.verdicts->reports.emplace(member.rank, failure);
  const auto expected = std::count_if(fleet.members.begin(), fleet.members.end(), MayReport);
  const bool decides = fleet.phase != Phase::kAdopting;  // else the ranks that are away would be given up
  if (decides && static_cast<int64_t>(fleet.verdicts->reports.size()) >= expected) Decide(fleet, now);
  return true;
}

void CheckDisagreement(Fleet& fleet, double now) {
  if (fleet.verdicts && now >= fleet.verdicts->deadline) Decide(fleet, now);
}

}  // namespace zerofleet::coordinator
