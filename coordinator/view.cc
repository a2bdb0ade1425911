// Forming a view; see view.h.
#include "coordinator/view.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "coordinator/load_phase.h"

namespace zerofleet {

void FormView(Fleet& fleet, double now) {
  ZF_CHECK(fleet.All(MemberState::kReady));
  fleet.generation = std::max(fleet.generation, fleet.parameters.previous_generation) + 1;
  fleet.counters.rendezvous_seconds = now - fleet.began;
  fleet.Emit(PersistState{{fleet.generation, fleet.last_committed_step}},
             absl::StrCat("generation ", fleet.generation, " must outlive this process"));
  v1::CoordinatorMessage message;
  v1::Assignment& assignment = *message.mutable_assignment();
  assignment.set_world_size(fleet.world_size());
  for (int rank = 0; rank < fleet.world_size(); ++rank) {
    Member& member = fleet.members[rank];
    member.rank = rank;
    v1::Member& entry = *assignment.add_members();
    entry.set_rank(rank);
    entry.set_host(member.hello.host());
    entry.set_pid(member.hello.pid());
    entry.set_transport_address(member.ready.transport_address());
  }
  for (const Member& member : fleet.members) {
    assignment.set_rank(member.rank);
    fleet.Send(member.id, message, absl::StrCat("all ", fleet.world_size(), " are ready; ranks follow join order"));
  }
  for (const std::string& notice : fleet.parameters.notices) fleet.PublishNotice(notice);
  BeginLoad(fleet, now);
}

}  // namespace zerofleet
