// The run's line and the members' table; see status_text.h.
#include "cli/report/status_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/units.h"
#include "cli/report/table.h"

namespace zerofleet::cli {
namespace {

// What the rank does in each group: the operation it is in, or how many it has completed.
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

// The host's name; if members of the same name have different addresses, the address too.
std::string HostText(const v1::GetStatusResponse& status, const v1::MemberStatus& member) {
  for (const v1::MemberStatus& other : status.members()) {
    if (other.host() != member.host() || other.address() == member.address() || member.address().empty()) continue;
    return absl::StrCat(member.host(), " (", member.address(), ")");
  }
  return member.host();
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
  text += '\n';
  TextTable table({"rank", "host", "pid", "state", "step", "heartbeat", "device", "collective"});
  for (const v1::MemberStatus& member : status.members()) {
    table.Add({member.rank() < 0 ? "-" : absl::StrCat(member.rank()), HostText(status, member),
               absl::StrCat(member.pid()), member.state(), absl::StrCat(member.step()),
               HumanSeconds(member.heartbeat_age_seconds()), member.device(), ProgressText(member)});
  }
  const int missing = status.world_size() - status.members_size();
  return absl::StrCat(text, table.Render(0, terminal),
                      missing > 0 ? absl::StrCat("waiting for ", missing, " more\n") : "");
}

}  // namespace zerofleet::cli
