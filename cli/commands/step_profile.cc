// See step_profile.h.
#include "cli/commands/step_profile.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status.h"

namespace zerofleet::cli {
namespace {

// The op that runs once in every step.
constexpr char kOncePerStep[] = "DecideStep";
// The ops that initialise the state before the first step.
const std::set<std::string>& OpsAtStart() {
  static const auto& names = *new std::set<std::string>{"FillNormal", "Fill"};
  return names;
}

std::string InMilliseconds(double seconds) { return absl::StrFormat("%.1f", 1e3 * seconds); }
std::string Share(double part, double whole) { return whole > 0 ? absl::StrFormat("%.1f%%", 100 * part / whole) : "-"; }

}  // namespace

absl::StatusOr<Profiles> ReadProfiles(const std::string& folder) {
  ZF_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(folder));
  Profiles profiles;
  for (const std::string& name : names) {
    ZF_ASSIGN_OR_RETURN(profiles[name], device::OpProfile::Read(JoinPath(folder, name)));
  }
  return profiles;
}

std::vector<RankProfile> ProfilesBetween(const Profiles& before, const Profiles& after, const StepCeilings& ceilings) {
  std::vector<std::string> names;
  for (const auto& [name, figures] : after) {
    if (figures.count(kOncePerStep) > 0) names.push_back(name);
  }
  // The names are process ids, which the system assigns in ascending order, so this is the order of starts.
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  std::vector<RankProfile> ranks;
  for (const std::string& name : names) {
    const auto earlier = before.find(name);
    const auto figures_before = [&](const std::string& op) -> device::OpFigures {
      if (earlier == before.end()) return {};
      const auto found = earlier->second.find(op);
      return found == earlier->second.end() ? device::OpFigures{} : found->second;
    };
    const std::map<std::string, device::OpFigures>& process = after.at(name);
    RankProfile rank;
    rank.steps = static_cast<double>(process.at(kOncePerStep).calls - figures_before(kOncePerStep).calls);
    for (const auto& [op_name, all] : process) {
      if (OpsAtStart().count(op_name) > 0) {
        rank.at_start[op_name] = all.seconds;
        continue;
      }
      const device::OpFigures sooner = figures_before(op_name);
      if (rank.steps <= 0 || all.calls == sooner.calls) continue;
      ProfiledOp op{.name = op_name, .figures = all};
      op.calls = static_cast<double>(all.calls - sooner.calls) / rank.steps;
      op.figures.seconds = (all.seconds - sooner.seconds) / rank.steps;
      op.figures.flops = (all.flops - sooner.flops) / rank.steps;
      op.figures.bytes = (all.bytes - sooner.bytes) / rank.steps;
      op.ideal_seconds =
          std::max(op.figures.flops / ceilings.flops_per_second, op.figures.bytes / ceilings.bytes_per_second);
      rank.ops.push_back(std::move(op));
    }
    std::sort(rank.ops.begin(), rank.ops.end(),
              [](const ProfiledOp& a, const ProfiledOp& b) { return a.gap() > b.gap(); });
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

std::map<std::string, double> PhasesIn(const std::map<std::string, double>& metrics) {
  constexpr char kSum[] = "zerofleet_worker_step_duration_seconds_sum{phase=\"";
  std::map<std::string, double> phases;
  for (const auto& [series, sum] : metrics) {
    if (!absl::StartsWith(series, kSum)) continue;
    const std::string labels = series.substr(series.find('{'));
    const auto count = metrics.find(absl::StrCat("zerofleet_worker_step_duration_seconds_count", labels));
    if (count == metrics.end() || count->second == 0) continue;
    const size_t begin = sizeof(kSum) - 1;
    phases[series.substr(begin, series.find('"', begin) - begin)] = sum / count->second;
  }
  return phases;
}

TextTable ProfileTable(const RankProfile& rank, double step_seconds) {
  TextTable table({"op", "calls", "GFLOP", "MB", "ideal ms", "ms", "ideal/ms", "of the step", "gap ms"});
  double seconds = 0, ideal = 0, flops = 0, bytes = 0;
  for (const ProfiledOp& op : rank.ops) {
    seconds += op.figures.seconds;
    ideal += op.ideal_seconds;
    flops += op.figures.flops;
    bytes += op.figures.bytes;
    if (op.figures.seconds < 5e-5) continue;  // would be shown as 0.0 ms
    table.Add({op.name, absl::StrFormat("%.0f", op.calls), absl::StrFormat("%.1f", op.figures.flops / 1e9),
               absl::StrFormat("%.0f", op.figures.bytes / 1e6), InMilliseconds(op.ideal_seconds),
               InMilliseconds(op.figures.seconds), Share(op.ideal_seconds, op.figures.seconds),
               Share(op.figures.seconds, step_seconds), InMilliseconds(op.gap())});
  }
  table.Add({"all ops", "", absl::StrFormat("%.1f", flops / 1e9), absl::StrFormat("%.0f", bytes / 1e6),
             InMilliseconds(ideal), InMilliseconds(seconds), Share(ideal, seconds), Share(seconds, step_seconds),
             InMilliseconds(seconds - ideal)});
  table.Add({"the rest of a step", "", "", "", "", InMilliseconds(step_seconds - seconds), "",
             Share(step_seconds - seconds, step_seconds), InMilliseconds(step_seconds - seconds)});
  for (const auto& [phase, each] : rank.phases) {
    table.Add({absl::StrCat("phase ", phase), "", "", "", "", InMilliseconds(each), "", Share(each, step_seconds), ""});
  }
  for (const auto& [name, once] : rank.at_start) {
    table.Add({absl::StrCat("at the start: ", name), "", "", "", "", InMilliseconds(once), "", "", ""});
  }
  return table;
}

nlohmann::ordered_json ProfileJson(const RankProfile& rank) {
  nlohmann::ordered_json ops = nlohmann::ordered_json::array();
  for (const ProfiledOp& op : rank.ops) {
    ops.push_back({{"op", op.name},
                   {"calls", op.calls},
                   {"flops", op.figures.flops},
                   {"bytes", op.figures.bytes},
                   {"ideal_seconds", op.ideal_seconds},
                   {"seconds", op.figures.seconds}});
  }
  return {{"ops", ops}, {"phases", rank.phases}, {"at_start", rank.at_start}};
}

}  // namespace zerofleet::cli
