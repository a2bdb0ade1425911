// Comparing the ranks' medians; see straggler.h.
#include "coordinator/straggler.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace zerofleet::coordinator {
namespace {

constexpr int kLeastSteps = 16;      // a median over fewer steps does not count
constexpr double kStraggles = 1.5;   // times the fleet's median
constexpr double kKeepsUp = 1.25;    // times the fleet's median: below this a rank no longer straggles
constexpr int kChecks = 3;           // how many checks in a row must agree before a notice, in either direction
constexpr int kStepsOfACheck = 16;   // steps between two checks: half of what the medians are over
constexpr double kLeastShare = 0.1;  // the share of a step it must cost; less is not worth a person's time

struct PhaseOfPace {
  const char* name;
  double (v1::Pace::*seconds)() const;
};
constexpr PhaseOfPace kPhases[] = {{"data", &v1::Pace::data},
                                   {"forward", &v1::Pace::forward},
                                   {"backward", &v1::Pace::backward},
                                   {"optimizer", &v1::Pace::optimizer}};

bool Counts(const Member& member) { return member.pace.steps() >= kLeastSteps; }

bool Straggles(const Fleet& fleet, const Lag& lag) {
  const double lost = lag.seconds - lag.fleet_seconds;
  return lag.ratio() > kStraggles && lost > kLeastShare * fleet.training.last_step_event.seconds();
}

std::string Describe(const Fleet& fleet, const Lag& lag) {
  return absl::StrFormat("%s holds up every step: %s takes %.3g s, %.1f times the others'",
                         NameOf(fleet.members[lag.rank]), lag.phase, lag.seconds, lag.ratio());
}

}  // namespace

std::vector<Lag> LagsOf(const Fleet& fleet) {
  std::vector<Lag> lags;
  for (const Member& member : fleet.members) {
    if (Counts(member)) lags.push_back({.rank = member.rank});
  }
  if (lags.size() < 2 || !fleet.view) return {};
  for (const PhaseOfPace& phase : kPhases) {
    std::vector<double> seconds;
    for (const Member& member : fleet.members) {
      if (Counts(member)) seconds.push_back((member.pace.*phase.seconds)());
    }
    std::vector<double> sorted = seconds;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    for (size_t i = 0; i < lags.size(); ++i) {
      if (seconds[i] - *middle <= lags[i].seconds - lags[i].fleet_seconds && !lags[i].phase.empty()) continue;
      lags[i] = {lags[i].rank, phase.name, seconds[i], *middle};
    }
  }
  return lags;
}

void CheckStragglers(Fleet& fleet, double now) {
  if (fleet.phase != Phase::kTraining || now - fleet.training.stragglers.checked < fleet.heartbeat_timeout_seconds())
    return;
  const int64_t step = fleet.training.last_step_event.step();
  if (step >= fleet.training.stragglers.checked_at && step < fleet.training.stragglers.checked_at + kStepsOfACheck)
    return;
  fleet.training.stragglers.checked = now;
  fleet.training.stragglers.checked_at = step;
  for (const Lag& lag : LagsOf(fleet)) {
    const bool known = fleet.training.stragglers.named.contains(lag.rank);
    int& checks = fleet.training.stragglers.checks[lag.rank];
    checks = (known ? lag.ratio() < kKeepsUp : Straggles(fleet, lag)) ? checks + 1 : 0;
    if (checks < kChecks) continue;
    checks = 0;
    if (known) {
      fleet.training.stragglers.named.erase(lag.rank);
      fleet.PublishNotice(absl::StrCat(NameOf(fleet.members[lag.rank]), " keeps up with the others again"));
    } else {
      fleet.training.stragglers.named.insert(lag.rank);
      fleet.PublishNotice(Describe(fleet, lag));
    }
  }
}

std::optional<std::string> StragglerText(const Fleet& fleet) {
  if (fleet.training.stragglers.named.empty()) return std::nullopt;
  for (const Lag& lag : LagsOf(fleet)) {
    if (fleet.training.stragglers.named.contains(lag.rank)) return Describe(fleet, lag);
  }
  return std::nullopt;
}

}  // namespace zerofleet::coordinator
