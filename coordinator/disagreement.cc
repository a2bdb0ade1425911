// Evicting ranks with wrong numbers, or nobody; see disagreement.h.
#include "coordinator/disagreement.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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

bool MayReport(const Member& member) { return !member.failed && !member.closed && member.state != MemberState::kLost; }

int64_t MostReports(const Fleet& fleet) { return std::count_if(fleet.members.begin(), fleet.members.end(), MayReport); }

// A report that more than half of the ranks that can report agree with; null if there is none. A rank that alone finds
// wrong numbers may be the one that has them.
const v1::Failure* Majority(const Fleet& fleet, const Verdicts& verdicts) {
  std::map<std::pair<bool, std::set<int>>, std::vector<const v1::Failure*>> same;
  for (const auto& [reporter, report] : verdicts.reports) {
    same[{report.disagreement().undecided(), NamedBy(fleet, report)}].push_back(&report);
  }
  for (const auto& [verdict, reports] : same) {
    if (2 * static_cast<int64_t>(reports.size()) > MostReports(fleet)) return reports.front();
  }
  return nullptr;
}

// The message for people if there is no majority.
std::string WithoutMajority(const Fleet& fleet, const Verdicts& verdicts) {
  const int64_t all = MostReports(fleet), reports = std::ssize(verdicts.reports);
  const std::string& first = verdicts.reports.begin()->second.message();
  if (2 * reports > all) return absl::StrCat(first, "; the ranks' verdicts differ");
  return absl::StrCat(first, "; ", reports, " of ", all, reports == 1 ? " ranks says so" : " ranks say so");
}

void Decide(Fleet& fleet, double now) {
  constexpr char kCounter[] = "integrity";
  const Verdicts verdicts = *std::exchange(fleet.hearing.verdicts, std::nullopt);
  const v1::Failure* const majority = Majority(fleet, verdicts);
  std::set<int> named;
  for (const auto& [reporter, report] : verdicts.reports) {
    if (majority != nullptr) break;
    named.insert(reporter);
    named.merge(NamedBy(fleet, report));
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
  const std::string text = majority != nullptr ? majority->message() : WithoutMajority(fleet, verdicts);
  BreakView(fleet, absl::UnavailableError(text), {named.begin(), named.end()}, now);
}

}  // namespace

bool OnDisagreement(Fleet& fleet, const Member& member, const v1::Failure& failure, double now) {
  if (!fleet.view || member.rank < 0 || NamedBy(fleet, failure).empty()) return false;
  fleet.recovering.memory_is_doubted = true;
  if (!fleet.hearing.verdicts) {
    fleet.hearing.verdicts = Verdicts{now + kReportHeartbeatTimeouts * fleet.heartbeat_timeout_seconds(), {}};
  }
  fleet.hearing.verdicts->reports.emplace(member.rank, failure);
  const bool decides = fleet.phase != Phase::kAdopting;  // deciding then would give up the ranks that are away
  if (decides && std::ssize(fleet.hearing.verdicts->reports) >= MostReports(fleet)) Decide(fleet, now);
  return true;
}

void CheckDisagreement(Fleet& fleet, double now) {
  if (fleet.hearing.verdicts && now >= fleet.hearing.verdicts->deadline) Decide(fleet, now);
}

}  // namespace zerofleet::coordinator
