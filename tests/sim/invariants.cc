// Checks every event and every output; see invariants.h.
#include "tests/sim/invariants.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/batch_shares.h"

namespace zerofleet::sim {
namespace {

const coordinator::Member* FindMember(const coordinator::Fleet& fleet, coordinator::MemberId id) {
  for (const coordinator::MemberList* group : {&fleet.members, &fleet.spares}) {
    for (const coordinator::Member& member : *group) {
      if (member.id == id) return &member;
    }
  }
  return nullptr;
}

// Everything that a decision may depend on, except when a member was last heard.
std::string Fingerprint(const coordinator::Fleet& fleet) {
  std::string text = absl::StrCat(coordinator::Name(fleet.phase), " ", fleet.generation, " ", fleet.loading.candidate,
                                  " ", fleet.training.start_step, " ", fleet.saving.last_committed_step, " ",
                                  fleet.training.last_step_event.step(), " ", fleet.recovering.losses.size(), " ",
                                  fleet.hearing.suspicion.has_value(), " ", fleet.finishing.stop_reason.has_value());
  for (const coordinator::Member& member : fleet.members) {
    absl::StrAppend(&text, " ", member.id, ":", member.rank, coordinator::Name(member.state), member.step,
                    member.entered.has_value(), member.failed);
  }
  for (const auto& [step, commit] : fleet.saving.commits)
    absl::StrAppend(&text, " ", step, "=", commit.shards.size(), static_cast<int>(commit.stage));
  return text;
}

bool IsOfAnOlderView(const coordinator::Fleet& fleet, const coordinator::Member& member,
                     const v1::WorkerMessage& message) {
  if (message.generation() >= fleet.generation || member.state == coordinator::MemberState::kSpare) return false;
  const bool of_no_view = message.has_heartbeat() || message.has_failure() || message.has_stop_requested();
  return !message.has_hello() &&
         (message.generation() > 0 || (!of_no_view && fleet.phase != coordinator::Phase::kForming));
}

bool IsFor(const coordinator::Output& output, coordinator::MemberId member) {
  if (const auto* send = std::get_if<coordinator::SendTo>(&output.action))
    return send->member == member && send->message->has_refused();
  const auto* close = std::get_if<coordinator::CloseSession>(&output.action);
  return close != nullptr && close->member == member;
}

}  // namespace

void Invariants::BeforeStep(const coordinator::Fleet& fleet, const coordinator::CoordinatorEvent& event) {
  before_.clear();
  ended_before_ = fleet.ended();
  const auto* received = std::get_if<coordinator::MessageReceived>(&event);
  if (received == nullptr || received->message.has_hello()) return;
  const coordinator::Member* member = FindMember(fleet, received->member);
  if (member == nullptr || IsOfAnOlderView(fleet, *member, received->message)) before_ = Fingerprint(fleet);
}

void Invariants::AfterStep(const coordinator::Fleet& fleet, const coordinator::CoordinatorEvent& event,
                           const std::vector<coordinator::Output>& outputs) {
  Expect(!ended_before_ || outputs.empty() || std::holds_alternative<coordinator::PersistFailed>(event),
         "I8: the run had ended");
  for (const coordinator::Output& output : outputs) Expect(!output.reason.empty(), "an output has no reason");
  if (before_.empty()) return;
  const auto& received = std::get<coordinator::MessageReceived>(event);
  const bool quiet = std::all_of(outputs.begin(), outputs.end(),
                                 [&](const coordinator::Output& output) { return IsFor(output, received.member); });
  Expect(quiet && Fingerprint(fleet) == before_,
         absl::StrCat("I4: a message of generation ", received.message.generation(), " from session ", received.member,
                      " was accepted: ", received.message.ShortDebugString().substr(0, 80)));
}

void Invariants::OnOutput(const coordinator::Fleet& fleet, const coordinator::Output& output) {
  if (const auto* send = std::get_if<coordinator::SendTo>(&output.action)) return OnSend(fleet, *send);
  if (const auto* publish = std::get_if<coordinator::PublishEvent>(&output.action)) return OnEvent(publish->event);
  if (const auto* persist = std::get_if<coordinator::PersistState>(&output.action)) {
    OnPersist(persist->state);
  } else if (const auto* write = std::get_if<coordinator::WriteManifest>(&output.action)) {
    const ViewSeen& view = views_[write->manifest.generation()];
    Expect(view.complete && write->manifest.files_size() == static_cast<int>(view.ranks.size()),
           "I1: a commit without every rank's shard");
  }
}

void Invariants::OnOutputOfTheOlder(const coordinator::Fleet& fleet, const coordinator::Output& output) {
  const auto* send = std::get_if<coordinator::SendTo>(&output.action);
  if (send == nullptr || send->message->has_refused()) return;
  const uint64_t generation = send->message->generation();
  Expect(generation <= disk_.generation_taken(),
         absl::StrCat("I12: the older coordinator tells of generation ", generation, ", and the newer began with ",
                      disk_.generation_taken()));
  if (send->message->has_assignment()) OnPlace(fleet, generation, send->message->assignment());
}

void Invariants::OnChange(int epoch, double looked_at, const char* what) {
  Expect(epoch == disk_.epoch() || looked_at <= disk_.taken_at(),
         absl::StrCat("I12: coordinator ", epoch, " ", what, ", and ", disk_.epoch(), " has taken the directory"));
}

void Invariants::OnSend(const coordinator::Fleet& fleet, const coordinator::SendTo& send) {
  const v1::CoordinatorMessage& message = *send.message;
  Expect(message.has_refused() || message.generation() <= disk_.newest_state().generation,
         absl::StrCat("I3: generation ", message.generation(), " is told before it is durable"));
  if (message.has_assignment()) OnAssignment(fleet, message.generation(), message.assignment());
  if (message.checkpoint().committed()) CheckIsCommitted(message.checkpoint().step());
  if (message.has_checkpoint() && !message.checkpoint().committed()) {
    const v1::CheckpointOutcome& outcome = message.checkpoint();
    const bool first = told_failed_.insert({message.generation(), outcome.step(), outcome.retry()}).second;
    Expect(!first || !disk_.HasShards(outcome.step(), message.generation()),
           absl::StrCat("I2: step ", outcome.step(), " is called failed before nothing is left of it"));
  }
  if (message.has_load()) {
    const std::string& path = message.load().path();
    const bool snapshot = message.load().has_snapshot();
    Expect(path.empty() || disk_.Lists(path), absl::StrCat("I2: ", path, " is to be loaded and is not on disk"));
    Expect(views_[message.generation()].complete, "I5: loading begins before all ranks have their places");
    loaded_generation_ = message.generation();
    loaded_step_ = snapshot ? message.load().snapshot().step() : path.empty() ? 0 : Disk::StepOf(path);
    from_memory_ = snapshot;
  }
  if (message.has_start()) {
    restored_ += from_memory_;
    from_memory_ = false;
    OnStart(message.start());
    Expect(message.start().step() >= disk_.NewestWhole() || disk_.IsLate(disk_.NewestWhole()),
           absl::StrCat("I7: goes on from step ", message.start().step(), " though step ", disk_.NewestWhole(),
                        " is committed"));
  }
}

void Invariants::OnPersist(const coordinator::CoordinatorState& state) {
  Expect(state.generation >= disk_.newest_state().generation, "I3: the stored generation goes back");
  CheckIsCommitted(state.last_committed_step);
  const std::vector<coordinator::Rollback>& before = disk_.newest_state().rollbacks;
  bool kept = state.rollbacks.size() >= before.size();
  for (size_t i = 0; kept && i < before.size(); ++i) {
    const bool settled = before[i].resumed_step < 0 && state.rollbacks[i].end_sample == before[i].end_sample;
    kept = settled || state.rollbacks[i] == before[i];
  }
  Expect(kept, "I9: a rollback is forgotten");
}

// All ranks of a view are told the same, so the first message is judged.
void Invariants::OnStart(const v1::Start& start) {
  coordinator::SkippedSamples durable;
  for (const coordinator::Rollback& rollback : disk_.newest_state().rollbacks) {
    durable.Add(rollback.first_sample, rollback.end_sample);
    Expect(rollback.resumed_step >= 0, "I9: goes on though it is not settled what is left out");
  }
  const coordinator::SkippedSamples told(start.skipped());
  Expect(told == durable, "I9: what is left out is told before it is durable");
  if (told == curriculum_.left_out()) return;
  // The rollback resumes where this view goes on; or it is an earlier one, which was durable before anybody was told.
  std::vector<int64_t> resumed = {start.step()};
  for (const coordinator::Rollback& rollback : disk_.newest_state().rollbacks) resumed.push_back(rollback.resumed_step);
  bool fits = false;
  for (const int64_t batch : curriculum_.diverged()) {
    for (const int64_t step : resumed) {
      coordinator::SkippedSamples wanted = curriculum_.left_out();
      wanted.Add(curriculum_.SamplesAfter(step), (batch + 1) * kBatch);
      fits = fits || told == wanted;
    }
  }
  Expect(fits,
         absl::StrCat("I9: goes on from step ", start.step(), " and leaves out other samples than led to a batch ",
                      "that diverged: ", start.ShortDebugString()));
  ++rollbacks_;
  curriculum_.LeaveOut(told);
}

void Invariants::OnCommitted(const v1::CheckpointManifest& manifest) {
  const bool left_behind = loaded_generation_ > manifest.generation() && loaded_step_ < manifest.step();
  Expect(!left_behind, absl::StrCat("I7: step ", manifest.step(), " was being committed when generation ",
                                    loaded_generation_, " went back to step ", loaded_step_));
}

void Invariants::OnAssignment(const coordinator::Fleet& fleet, uint64_t generation, const v1::Assignment& view) {
  if (!views_.contains(generation)) {
    Expect(generation > newest_generation_, absl::StrCat("I3: generation ", generation, " after ", newest_generation_));
    newest_generation_ = std::max(newest_generation_, generation);
  }
  OnPlace(fleet, generation, view);
}

void Invariants::OnPlace(const coordinator::Fleet& fleet, uint64_t generation, const v1::Assignment& view) {
  ViewSeen& seen = views_[generation];
  Expect(seen.ranks.insert(view.rank()).second,
         absl::StrCat("I5: rank ", view.rank(), " of generation ", generation, " is given out twice"));
  std::vector<std::pair<int64_t, int64_t>>& owned = seen.owned[view.rank() % plan_.tensor()];
  for (const v1::FlatRange& range : view.owned()) owned.emplace_back(range.flat_begin(), range.flat_end());
  if (static_cast<int>(seen.ranks.size()) < view.world_size()) return;
  seen.complete = true;
  Expect(static_cast<int>(seen.owned.size()) == plan_.tensor(), "I5: a part of the model has no rank");
  for (auto& [part, ranges] : seen.owned) {
    std::sort(ranges.begin(), ranges.end());
    int64_t end = 0;
    for (const auto& [from, to] : ranges) {
      Expect(from == end, absl::StrCat("I5: element ", std::min(from, end), " has no owner, or two"));
      end = to;
    }
    Expect(end == kElements, "I5: the last elements have no owner");
  }
  // Replacements take the ranks of lost workers, wherever they run.
  if (!fleet.recovering.current && !view.members().empty()) CheckPlacement(view, !fleet.parameters.candidates.empty());
}

void Invariants::CheckPlacement(const v1::Assignment& view, bool team_is_kept) {
  std::set<std::string> hosts = {view.members(0).host()};
  const bool one_team = team_is_kept || coordinator::SumsInSampleOrder(plan_.config);
  const auto team = [this, &view](int rank) { return rank / plan_.tensor() / view.team(); };
  for (int rank = 1; rank < view.members_size(); ++rank) {
    const v1::Member &before = view.members(rank - 1), &here = view.members(rank);
    const bool another = here.host() != before.host();
    Expect(here.node() == before.node() + another, "I5: nodes are not numbered in order");
    Expect(!another || hosts.insert(here.host()).second, absl::StrCat("I5: ", here.host(), " has ranks apart"));
    Expect(one_team || team(rank) != team(rank - 1) || !another, "I5: a team spans two nodes");
  }
}

void Invariants::OnEvent(const v1::Event& event) {
  if (event.has_step()) return OnStep(event.step());
  if (event.has_end()) return OnEnd(event.end());
  if (event.has_start()) {
    next_step_ = event.start().resumed_from() + 1;
    reached_step_ = 0;
  }
  if (event.has_checkpoint()) CheckIsCommitted(event.checkpoint().step());
  if (event.has_save_failed()) ++failed_saves_;
  shrunk_ += absl::StartsWith(event.notice().message(), "nobody came within");
  adopted_ += absl::EndsWith(event.notice().message(), " ranks are back");
  grown_ += absl::StartsWith(event.notice().message(), "workers have joined");
  if (event.has_recovery()) {
    const int64_t resumed = event.recovery().resumed_step(), lost = event.recovery().lost_steps();
    Expect(lost == std::max<int64_t>(0, reached_step_ - resumed), absl::StrCat("I7: ", lost, " steps are called lost"));
    next_step_ = resumed + 1;
    ++recoveries_;
    reached_step_ = std::min(reached_step_, resumed);
  }
}

// The checkpoint may have been removed for newer ones since.
void Invariants::CheckIsCommitted(int64_t step) {
  const bool holds = step < 0 || disk_.IsCommitted(step) || step < disk_.NewestWhole();
  Expect(holds, absl::StrCat("I2: step ", step, " is called committed and is not on disk"));
}

void Invariants::OnStep(const v1::StepEvent& step) {
  Expect(step.step() == next_step_, absl::StrCat("I6: step ", step.step(), " is reported, not ", next_step_));
  next_step_ = step.step() + 1;
  reached_step_ = step.step();
  losses_[step.step()] = step.loss();
  Expect(step.loss() == LossOf(curriculum_.StateAfter(step.step())),
         absl::StrCat("I6: the loss of step ", step.step(), " differs"));
}

void Invariants::OnEnd(const v1::EndEvent& end) {
  if (end.stopped()) return;
  Expect(end.step() == plan_.config.steps(), absl::StrCat("I6: the run ends at step ", end.step()));
  for (int64_t step = 1; step <= end.step(); ++step) {
    Expect(losses_.contains(step), absl::StrCat("I6: step ", step, " was never reported"));
  }
  Expect(disk_.NewestWhole() == end.step() || disk_.IsCommitted(end.step()), "I2: the end is not committed");
}

}  // namespace zerofleet::sim
