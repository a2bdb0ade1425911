// The operator's view; see status_view.h.
#include "coordinator/status_view.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/divergence.h"
#include "coordinator/hang.h"
#include "coordinator/straggler.h"

namespace zerofleet::coordinator {
namespace {

// Why the fleet is in this state, if its phase does not say.
std::string MessageOf(const Fleet& fleet, double now) {
  if (fleet.ended()) return fleet.message;
  if (fleet.finishing.stop_reason) return absl::StrCat("stopping: ", *fleet.finishing.stop_reason);
  if (fleet.phase == Phase::kForming) {
    return absl::StrCat("waiting for workers: ", fleet.members.size(), " of ", fleet.world_size(), " joined");
  }
  if (fleet.phase == Phase::kAdopting) {
    return absl::StrCat("adopting a running fleet: ", fleet.world_size() - fleet.members.away(), " of ",
                        fleet.world_size(), " ranks are back");
  }
  if (fleet.phase == Phase::kRecovering) {
    return absl::StrCat("recovering, ", fleet.members.size(), " of ", fleet.world_size(),
                        " places taken: ", fleet.recovering.current->cause);
  }
  std::optional<Wait> wait = FindWait(fleet);
  if (wait && now - wait->since > fleet.heartbeat_timeout_seconds()) return Describe(*wait);
  return StragglerText(fleet).value_or("");
}

v1::MemberStatus StatusOf(const Fleet& fleet, const Member& member, double now) {
  v1::MemberStatus entry;
  const bool placed = fleet.view && member.rank >= 0;
  entry.set_rank(member.rank);
  entry.set_node(placed ? fleet.view->nodes[member.rank] : -1);
  entry.set_team(placed ? fleet.view->TeamOf(member.rank) : -1);
  entry.set_host(member.hello.host());
  entry.set_node_name(member.hello.node_name());
  entry.set_pid(member.hello.pid());
  entry.set_state(Name(member.state));
  entry.set_step(member.step);
  entry.set_heartbeat_age_seconds(now - member.last_heard);
  *entry.mutable_progress() = {member.progress.begin(), member.progress.end()};
  entry.set_device(member.hello.device());
  entry.set_device_description(member.hello.device_description());
  entry.set_metrics_address(member.hello.metrics_address());
  entry.set_address(member.hello.address());
  return entry;
}

}  // namespace

v1::GetStatusResponse StatusOf(const Fleet& fleet, double now, const v1::GetStatusRequest& request) {
  v1::GetStatusResponse status;
  status.set_phase(Name(fleet.phase));
  status.set_generation(fleet.generation);
  status.set_world_size(fleet.world_size());
  status.set_step(std::max(fleet.training.last_step_event.step(), fleet.training.start_step));
  status.set_steps(fleet.parameters.config.steps());
  status.set_loss(fleet.training.last_step_event.loss());
  status.set_tokens_per_second(fleet.training.last_step_event.tokens_per_second());
  status.set_mfu(fleet.training.last_step_event.mfu());
  status.set_last_checkpoint_step(fleet.saving.last_committed_step);
  status.set_message(MessageOf(fleet, now));
  if (fleet.saving.failed_save) status.set_save_failure(fleet.saving.failed_save->text);
  status.set_rollback(RollbackText(fleet));
  status.set_version(fleet.parameters.version);
  if (fleet.view) status.set_team(fleet.view->team);
  if (fleet.view && request.partitions()) {
    *status.mutable_partition() = PartitionStatusOf(fleet.view->partition, fleet.parameters.states(fleet.world_size()),
                                                    static_cast<int>(fleet.parameters.config.parallel().tensor()));
  }
  if (request.flight() && fleet.recovering.flight.ranks_size() > 0) *status.mutable_flight() = fleet.recovering.flight;
  for (const MemberList* group : {&fleet.members, &fleet.spares}) {
    for (const Member& member : *group) *status.add_members() = StatusOf(fleet, member, now);
  }
  return status;
}

double GoodputRatio(const Fleet& fleet, double now) {
  if (now <= fleet.began) return 0;
  const double productive = fleet.counters.step_seconds - fleet.counters.lost_step_seconds;
  return std::clamp(productive / (now - fleet.began), 0.0, 1.0);
}

}  // namespace zerofleet::coordinator
