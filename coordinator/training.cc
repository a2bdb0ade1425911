// Heartbeats and events of workers; see training.h.
#include "coordinator/training.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/divergence.h"
#include "coordinator/repeated_steps.h"

namespace zerofleet::coordinator {
namespace {

bool SameProgress(const std::vector<v1::GroupProgress>& a, const v1::Heartbeat& b) {
  return std::equal(a.begin(), a.end(), b.progress().begin(), b.progress().end(),
                    [](const v1::GroupProgress& x, const v1::GroupProgress& y) {
                      return x.group() == y.group() && x.sequence() == y.sequence() && x.completed() == y.completed();
                    });
}

void NoteSave(Member& member, const v1::Heartbeat& heartbeat, double now) {
  const bool same = heartbeat.has_save() == member.save.has_value() &&
                    (!member.save || (member.save->step() == heartbeat.save().step() &&
                                      member.save->bytes() == heartbeat.save().bytes()));
  if (same) return;
  member.save_since = now;
  member.save.reset();
  if (heartbeat.has_save()) member.save = heartbeat.save();
}

void NoteProductive(Fleet& fleet, const v1::StepEvent& step, double now) {
  NoteLoss(fleet, step);
  NoteStep(fleet, step);
  fleet.counters.step_seconds += step.seconds();
  if (fleet.recovering.ended > 0) fleet.counters.recovery.first_step = now - std::exchange(fleet.recovering.ended, 0);
}

}  // namespace

void OnHeartbeat(Member& member, const v1::Heartbeat& heartbeat, double now) {
  member.heartbeats = true;
  if (member.state != MemberState::kTraining) return;
  const bool same_step = heartbeat.step() <= member.step;
  member.step = std::max(member.step, heartbeat.step());
  if (heartbeat.has_pace()) member.pace = heartbeat.pace();
  NoteSave(member, heartbeat, now);
  if (same_step && SameProgress(member.progress, heartbeat)) return;
  member.progress.assign(heartbeat.progress().begin(), heartbeat.progress().end());
  member.progress_since = now;
}

void OnWorkerEvent(Fleet& fleet, const Member& member, const v1::Event& event, double now) {
  if (event.has_notice()) return fleet.PublishNotice(absl::StrCat(NameOf(member), ": ", event.notice().message()));
  if (member.rank != 0) return;
  if (event.has_step() &&
      event.step().step() > std::max(fleet.training.last_step_event.step(), fleet.training.start_step)) {
    v1::Event published = event;
    published.mutable_step()->set_generation(fleet.generation);
    fleet.training.last_step_event = published.step();
    NoteProductive(fleet, published.step(), now);
    fleet.Publish(published, "rank 0 reports a step");
  }
  if (event.has_histogram()) fleet.Publish(event, "rank 0 reports a histogram");
  if (event.has_evaluate() && event.evaluate().step() > fleet.training.last_evaluated_step) {
    fleet.training.last_evaluated_step = event.evaluate().step();
    fleet.training.last_evaluation = event.evaluate();
    fleet.Publish(event, "rank 0 reports an evaluation");
  }
}

void StartWhereItEnded(Fleet& fleet) {
  fleet.training.start_step = std::max<int64_t>(0, fleet.saving.last_committed_step);
}

}  // namespace zerofleet::coordinator
