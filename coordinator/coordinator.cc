// Events to the decisions that handle them; see coordinator.h.
#include "coordinator/coordinator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "coordinator/adoption.h"
#include "coordinator/commit.h"
#include "coordinator/config_digest.h"
#include "coordinator/disagreement.h"
#include "coordinator/ending.h"
#include "coordinator/failed_save.h"
#include "coordinator/isolation.h"
#include "coordinator/liveness.h"
#include "coordinator/load_phase.h"
#include "coordinator/rendezvous.h"
#include "coordinator/save_stalls.h"
#include "coordinator/stop.h"
#include "coordinator/straggler.h"
#include "coordinator/training.h"
#include "coordinator/view.h"

namespace zerofleet::coordinator {

using Body = v1::WorkerMessage::BodyCase;

Coordinator::Coordinator(FleetParameters parameters, double now_seconds) {
  ZF_CHECK(parameters.config.parallel().workers() >= 1);
  ZF_CHECK(parameters.config.parallel().tensor() >= 1);
  fleet_.parameters = std::move(parameters);
  fleet_.config_digest = ConfigDigest(fleet_.parameters.config);
  fleet_.places = fleet_.parameters.config.parallel().workers();
  fleet_.generation = fleet_.parameters.previous_generation;
  fleet_.recovering.rollbacks = fleet_.parameters.rollbacks;
  fleet_.began = fleet_.forming.since = fleet_.hearing.last_tick = now_seconds;
  if (!fleet_.parameters.candidates.empty())
    fleet_.saving.last_committed_step = fleet_.parameters.candidates.front().step;
  if (fleet_.parameters.ended_before) {
    fleet_.phase = Phase::kDone;
    StartWhereItEnded(fleet_);
  }
}

std::vector<Output> Coordinator::Step(const CoordinatorEvent& event, double now_seconds) {
  // If the state could not be saved, the outputs after it were dropped: nobody was told of the completion, so it is
  // undone.
  const bool undone = fleet_.phase == Phase::kDone && std::holds_alternative<PersistFailed>(event);
  if (undone) fleet_.phase = Phase::kFinishing;
  if (!fleet_.ended()) std::visit([&](const auto& what) { Handle(what, now_seconds); }, event);
  return std::exchange(fleet_.outputs, {});
}

void Coordinator::Handle(const MessageReceived& received, double now) {
  const v1::WorkerMessage& message = received.message;
  EndIsolation(fleet_, now);
  fleet_.hearing.heard_at = now;
  if (IsGivenUp(fleet_, received.member)) return;
  Member* member = fleet_.Find(received.member);
  if (message.has_hello()) {
    if (member != nullptr || OnRejoin(fleet_, received.member, message.hello(), now)) return;
    return OnHello(fleet_, received.member, message.hello(), now);
  }
  if (member == nullptr) {
    return RefuseSession(fleet_, received.member, absl::FailedPreconditionError("a session must begin with Hello"));
  }
  if (message.generation() > fleet_.generation) {
    return FailFleet(fleet_, OlderThanTheFleet(fleet_, NameOf(*member), message.generation()), member->rank);
  }
  // A spare is in no view: a failure in a view that it reports belongs to the view that it has left.
  const bool stale = member->state == MemberState::kSpare ? message.failure().in_view() : Stale(message);
  // Until a member knows the next generation its messages carry the last one; it is alive all the same.
  if (!stale || fleet_.phase == Phase::kRecovering) member->last_heard = now;
  if (stale) return;
  Dispatch(*member, message, now);
}

bool Coordinator::Stale(const v1::WorkerMessage& message) {
  if (message.generation() == fleet_.generation) return false;
  // These may be sent before the worker knows its generation, and hold in any.
  bool timeless = message.has_heartbeat() || message.has_failure() || message.has_stop_requested();
  if (message.generation() == 0 && (timeless || fleet_.phase == Phase::kForming)) return false;
  // In every recovery some heartbeats cross the news of a new generation.
  if (!message.has_heartbeat()) ++fleet_.counters.stale_messages_rejected;
  return true;
}

void Coordinator::Dispatch(Member& member, const v1::WorkerMessage& message, double now) {
  bool training = member.state == MemberState::kTraining;
  switch (message.body_case()) {
    case Body::kReady: return OnReady(fleet_, member, message.ready(), now);
    case Body::kEntered: return OnEntered(fleet_, member, message.entered(), now);
    case Body::kPeersWanted: return OnPeersWanted(fleet_, member, message.peers_wanted());
    case Body::kLoadResult: return OnLoadResult(fleet_, member, message.load_result(), now);
    case Body::kHeartbeat: return OnHeartbeat(member, message.heartbeat(), now);
    case Body::kEvent:
      if (training || message.event().has_notice()) OnWorkerEvent(fleet_, member, message.event(), now);
      return;
    case Body::kShardWritten:
      if (training) OnShardWritten(fleet_, member, message.shard_written(), now);
      return;
    case Body::kFailure: return OnFailure(fleet_, member, message.failure(), now);
    case Body::kFinished:
      if (training) OnFinished(fleet_, member, message.finished(), now);
      return;
    case Body::kStopRequested: return OnStopRequested(fleet_, member, message.stop_requested());
    case Body::kHello:
    case Body::BODY_NOT_SET: return;
  }
}

void Coordinator::Handle(const SessionClosed& closed, double now) {
  ForgiveLongDelay(fleet_, now);
  Member* member = fleet_.Find(closed.member);
  if (member != nullptr) return OnSessionClosed(fleet_, *member, closed.cause, now);
  if (fleet_.hearing.given_up.erase(closed.member) > 0) return;
  fleet_.Emit(CloseSession{closed.member}, "it never joined");
}

void Coordinator::Handle(const Tick&, double now) {
  ForgiveOwnDelay(fleet_, now);
  ContinueIsolation(fleet_, now);
  CheckFormTimeout(fleet_, now);
  if (fleet_.phase == Phase::kAdopting) return CheckAdoption(fleet_, now);
  if (fleet_.phase == Phase::kForming && fleet_.forming.restarted) FormViewIfComplete(fleet_, now);
  if (!fleet_.ended()) CheckDisagreement(fleet_, now);
  if (!fleet_.ended()) CheckLiveness(fleet_, now);
  if (!fleet_.ended()) CheckIsolation(fleet_, now);
  CheckSaves(fleet_, now);
  CheckStragglers(fleet_, now);
}

void Coordinator::Handle(const StopAsked& stop, double) { OnStop(fleet_, stop.reason); }

void Coordinator::Handle(const ManifestWritten& written, double now) { OnManifestWritten(fleet_, written, now); }

void Coordinator::Handle(const SaveDiscarded& discarded, double) { OnSaveDiscarded(fleet_, discarded); }

void Coordinator::Handle(const StorageProgress&, double now) { OnStorageProgress(fleet_, now); }

void Coordinator::Handle(const CheckpointVerified& verified, double now) { OnVerified(fleet_, verified, now); }

void Coordinator::Handle(const StorageNotice& notice, double) {
  if (notice.emptied) {
    fleet_.saving.emptied = true;
    fleet_.Emit(PersistState{StateOf(fleet_)}, "the next coordinator must not miss what is gone already");
  }
  fleet_.PublishNotice(notice.message);
}

void Coordinator::Handle(const StorageLost& lost, double) { FailFleet(fleet_, lost.status, -1); }

void Coordinator::Handle(const PersistFailed& failed, double) {
  FailFleet(fleet_, Annotate(failed.status, "the coordinator could not save its state"), -1);
}

}  // namespace zerofleet::coordinator
