// The run's line and the members' table; see status_text.h.
#include "cli/report/status_text.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/units.h"
#include "cli/report/table.h"

namespace zerofleet::cli {
namespace {

// What a rank does in each of its groups: the operation that it is in, or the number of completed ones.
std::string ProgressText(const v1::MemberStatus& member) {
  std::string text;
  for (const v1::GroupProgress& each : member.progress()) {
    if (!text.empty()) text += ", ";
    if (each.sequence() > each.completed()) {
      absl::StrAppend(&text, each.group(), " #", each.sequence(), " ", each.operation(), " ", each.unit());
    } else {
      absl::StrAppend(&text, each.group(), " #", each.completed(), " done");
    }
  }
  return text;
}

// The host's name, and its address if another member has the same host name and another address.
std::string HostText(const v1::GetStatusResponse& status, const v1::MemberStatus& member) {
  for (const v1::MemberStatus& other : status.members()) {
    if (other.host() != member.host() || other.address() == member.address() || member.address().empty()) continue;
    return absl::StrCat(member.host(), " (", member.address(), ")");
  }
  return member.host();
}

bool HasSeveralTeams(const v1::GetStatusResponse& status) {
  for (const v1::MemberStatus& member : status.members()) {
    if (member.team() > 0) return true;
  }
  return false;
}

// The bytes of each model state at rest, a row per rank.
std::string StatesText(const v1::PartitionStatus& partition, const Terminal& terminal) {
  if (partition.ranks().empty()) return "";
  std::vector<std::string> header = {"rank"};
  for (const v1::StateBytes& state : partition.ranks(0).states()) header.push_back(state.name());
  TextTable table(header);
  for (const v1::RankPartition& rank : partition.ranks()) {
    std::vector<std::string> row = {absl::StrCat(rank.rank())};
    for (const v1::StateBytes& state : rank.states()) row.push_back(HumanBytes(state.bytes()));
    table.Add(std::move(row));
  }
  return absl::StrCat("\nbytes of each state, padding included\n", table.Render(0, terminal));
}

// The range of the flat space that each rank owns in each unit.
std::string UnitsText(const v1::PartitionStatus& partition, const Terminal& terminal) {
  std::vector<std::string> header = {"unit", "elements"};
  for (const v1::RankPartition& rank : partition.ranks()) header.push_back(absl::StrCat("rank ", rank.rank()));
  TextTable table(header);
  for (int u = 0; u < partition.units_size(); ++u) {
    const v1::UnitStatus& unit = partition.units(u);
    std::vector<std::string> row = {unit.name(), absl::StrCat(unit.flat_end() - unit.flat_begin())};
    for (const v1::RankPartition& rank : partition.ranks()) {
      if (u >= rank.owned_size()) return "";  // not a partition of these units
      const v1::FlatRange& owned = rank.owned(u);
      row.push_back(owned.flat_begin() == owned.flat_end() ? "-"
                                                           : absl::StrCat(owned.flat_begin(), "-", owned.flat_end()));
    }
    table.Add(std::move(row));
  }
  return absl::StrCat("\nwho owns which elements: from the first to before the last\n", table.Render(0, terminal));
}

// The last few collectives of each rank; the last row shows where the rank stood.
std::string FlightText(const v1::Flight& flight, const Terminal& terminal) {
  constexpr int kMostEntries = 6;
  TextTable table({"rank", "group", "sequence", "operation", "unit", "bytes", "began", "took"});
  for (const v1::FlightRecord& rank : flight.ranks()) {
    for (int i = std::max(0, rank.entries_size() - kMostEntries); i < rank.entries_size(); ++i) {
      const v1::FlightEntry& entry = rank.entries(i);
      table.Add({absl::StrCat(rank.rank()), entry.group(), absl::StrCat(entry.sequence()), entry.operation(),
                 entry.unit(), entry.bytes() > 0 ? HumanBytes(entry.bytes()) : "-",
                 entry.began_ago() > 0 ? HumanSeconds(entry.began_ago()) + " ago" : "-",
                 entry.finished() ? HumanSeconds(entry.seconds()) : "not finished"});
    }
  }
  return absl::StrCat("\n",
                      WrapText(absl::StrCat("flight records of generation ", flight.generation(), ": ", flight.cause()),
                               terminal.columns(), /*indent=*/2),
                      "\n", table.Render(0, terminal));
}

}  // namespace

std::string StatusText(const v1::GetStatusResponse& status, const Terminal& terminal) {
  std::string run = absl::StrCat(", generation ", status.generation(), ", step ", status.step(), "/", status.steps());
  if (status.step() > 0) {
    absl::StrAppendFormat(&run, ", loss %.4f, %s tok/s, MFU %.1f%%", status.loss(),
                          HumanCount(status.tokens_per_second()), 100 * status.mfu());
  }
  absl::StrAppend(&run, status.last_checkpoint_step() < 0
                            ? ", no checkpoint yet"
                            : absl::StrCat(", checkpoint at step ", status.last_checkpoint_step()));
  const int columns = terminal.columns();
  const Style style = status.phase() == "failed" ? Style::kError : Style::kGood;
  std::string text = absl::StrCat(terminal.Paint(style, status.phase()),
                                  WrapText(run, columns, /*indent=*/2, /*used=*/DisplayWidth(status.phase())), "\n");
  if (!status.message().empty()) absl::StrAppend(&text, WrapText(status.message(), columns, /*indent=*/2), "\n");
  if (!status.rollback().empty()) absl::StrAppend(&text, WrapText(status.rollback(), columns, /*indent=*/2), "\n");
  if (!status.save_failure().empty()) {
    absl::StrAppend(&text, WrapText(absl::StrCat("last save failed: ", status.save_failure()), columns, /*indent=*/2),
                    "\n");
  }
  text += '\n';
  const bool teams = HasSeveralTeams(status);
  std::vector<std::string> header = {"rank", "host", "pid", "state", "step", "heartbeat", "device", "collective"};
  if (teams) header.insert(header.begin() + 1, "team");
  TextTable table(header);
  for (const v1::MemberStatus& member : status.members()) {
    std::vector<std::string> row = {member.rank() < 0 ? "-" : absl::StrCat(member.rank()),
                                    HostText(status, member),
                                    absl::StrCat(member.pid()),
                                    member.state(),
                                    absl::StrCat(member.step()),
                                    HumanSeconds(member.heartbeat_age_seconds()),
                                    member.device(),
                                    ProgressText(member)};
    if (teams) row.insert(row.begin() + 1, absl::StrCat(member.team()));
    table.Add(std::move(row));
  }
  const int missing = status.world_size() - status.members_size();
  absl::StrAppend(&text, table.Render(0, terminal),
                  missing > 0 ? absl::StrCat("waiting for ", missing, " more\n") : "");
  if (status.has_partition()) {
    absl::StrAppend(&text, StatesText(status.partition(), terminal), UnitsText(status.partition(), terminal));
  }
  return status.has_flight() ? absl::StrCat(text, FlightText(status.flight(), terminal)) : text;
}

}  // namespace zerofleet::cli
