// Stop requests; see stop.h.
#include "coordinator/stop.h"

#include "absl/strings/str_cat.h"
#include "coordinator/ending.h"

namespace zerofleet::coordinator {

void OnStop(Fleet& fleet, const std::string& reason) {
  if (fleet.finishing.stop_reason) return;
  fleet.finishing.stop_reason = reason;
  if (fleet.recovering.current) {
    return FailFleet(
        fleet, absl::CancelledError(absl::StrCat("stopped in a recovery: ", reason, "; ", LastCommitText(fleet))), -1);
  }
  if (fleet.phase == Phase::kForming || fleet.phase == Phase::kLoading) {
    return FailFleet(fleet, absl::CancelledError(absl::StrCat("stopped before training began: ", reason)), -1);
  }
  if (fleet.phase == Phase::kAdopting) return;  // told when all ranks are back
  TellStop(fleet);
}

void TellStop(Fleet& fleet) {
  v1::CoordinatorMessage message;
  message.mutable_stop()->set_reason(*fleet.finishing.stop_reason);
  fleet.SendToAll(message, *fleet.finishing.stop_reason);
}

void OnStopRequested(Fleet& fleet, const Member& member, const v1::StopRequested& requested) {
  OnStop(fleet, absl::StrCat(NameOf(member), " received signal ", requested.signal()));
}

}  // namespace zerofleet::coordinator
