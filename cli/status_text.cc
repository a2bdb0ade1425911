// The run's line and the members' table; see status_text.h.
#include "cli/status_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/units.h"
#include "cli/table.h"

namespace zerofleet {
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

}  // namespace

std::string StatusText(const v1::GetStatusResponse& status) {
  std::string text =
      absl::StrCat(status.phase(), ", generation ", status.generation(), ", step ", status.step(), "/", status.steps());
  if (status.step() > 0) {
    absl::StrAppendFormat(&text, ", loss %.4f, %s tok/s, MFU %.1f%%", status.loss(),
                          HumanCount(status.tokens_per_second()), 100 * status.mfu());
  }
  absl::StrAppend(&text, status.last_checkpoint_step() < 0
                             ? ", no checkpoint yet"
                             : absl::StrCat(", checkpoint at step ", status.last_checkpoint_step()));
  if (!status.message().empty()) absl::StrAppend(&text, "\n", status.message());
  absl::StrAppend(&text, "\n\n");
  TextTable table({"rank", "host", "pid", "state", "step", "heartbeat", "device", "collective"});
  for (const v1::MemberStatus& member : status.members()) {
    table.Add({member.rank() < 0 ? "-" : absl::StrCat(member.rank()), member.host(), absl::StrCat(member.pid()),
               member.state(), absl::StrCat(member.step()), HumanSeconds(member.heartbeat_age_seconds()),
               member.device(), ProgressText(member)});
  }
  const int missing = status.world_size() - status.members_size();
  return absl::StrCat(text, table.Render(), missing > 0 ? absl::StrCat("waiting for ", missing, " more\n") : "");
}

}  // namespace zerofleet
