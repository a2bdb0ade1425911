// The payload is the peer's rank, a space, and the group's name; see unreachable.h.
#include "worker/collective/unreachable.h"

#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"

namespace zerofleet::collective {
namespace {

constexpr char kPayload[] = "zerofleet.collective.UnreachablePeer";

}  // namespace

absl::Status WithUnreachablePeer(absl::Status status, const UnreachablePeer& peer) {
  ZF_CHECK(!status.ok());
  status.SetPayload(kPayload, absl::Cord(absl::StrCat(peer.peer, " ", peer.group)));
  return status;
}

std::optional<UnreachablePeer> UnreachablePeerOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  if (!payload) return std::nullopt;
  const std::string text(*payload);
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(' ', 1));
  UnreachablePeer peer;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &peer.peer)) return std::nullopt;
  peer.group = parts[1];
  return peer;
}

}  // namespace zerofleet::collective
