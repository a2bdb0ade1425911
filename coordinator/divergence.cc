// Going back, what is left out, and when that ends; see divergence.h.
#include "coordinator/divergence.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/cut_text.h"
#include "coordinator/ending.h"
#include "coordinator/recovery.h"
#include "coordinator/skipped_samples.h"

namespace zerofleet::coordinator {
namespace {

constexpr size_t kMostRollbacks = 1000;  // per run: each Start and the state file hold them all
constexpr size_t kMostCause = 256;       // bytes

SkippedSamples SkippedBy(const Fleet& fleet) {
  SkippedSamples skipped;
  for (const Rollback& rollback : fleet.recovering.rollbacks) skipped.Add(rollback.first_sample, rollback.end_sample);
  return skipped;
}

std::string TextOf(int64_t step, const std::string& cause) {
  return absl::StrCat("training has diverged at step ", step, ": ", cause);
}

// The rollbacks of this coordinator's lifetime that have not helped: no commit lies beyond their steps. A restarted
// coordinator counts from zero, since a person may have changed the learning rate.
std::vector<std::string> InVain(const Fleet& fleet) {
  std::vector<std::string> texts;
  for (size_t i = fleet.parameters.rollbacks.size(); i < fleet.recovering.rollbacks.size(); ++i) {
    const Rollback& rollback = fleet.recovering.rollbacks[i];
    if (rollback.step > std::max<int64_t>(0, fleet.saving.last_committed_step)) {
      texts.push_back(absl::StrCat("step ", rollback.step, ": ", rollback.cause));
    }
  }
  return texts;
}

// "; samples 20 to 29 are left out"
std::string LeftOutText(const Rollback& rollback) {
  return absl::StrCat("samples ", rollback.first_sample, " to ", rollback.end_sample - 1, " are left out");
}

}  // namespace

bool OnDivergence(Fleet& fleet, const v1::Failure& failure, double now) {
  if (!failure.has_divergence() || fleet.parameters.config.on_divergence() != "rollback") return false;
  if (fleet.phase == Phase::kAdopting) {  // going back now would give up the ranks that are not back yet
    fleet.adopting.diverged = failure.divergence();
    return true;
  }
  if (!fleet.view || (fleet.phase != Phase::kTraining && fleet.phase != Phase::kFinishing)) return false;
  GoBack(fleet, failure.divergence(), now);
  return true;
}

void CountDivergence(Fleet& fleet, const v1::Divergence& divergence) {
  ++(divergence.spike() ? fleet.counters.spikes : fleet.counters.not_finite);
}

void GoBack(Fleet& fleet, const v1::Divergence& divergence, double now) {
  CountDivergence(fleet, divergence);
  const std::string cause = CutText(divergence.cause(), kMostCause), text = TextOf(divergence.step(), cause);
  const std::vector<std::string> before = InVain(fleet);
  if (static_cast<int64_t>(before.size()) >= fleet.parameters.config.divergence().max_rollbacks() ||
      fleet.recovering.rollbacks.size() >= kMostRollbacks) {
    return FailFleet(
        fleet,
        absl::FailedPreconditionError(absl::StrCat(
            text, "; going back ", before.size(), before.size() == 1 ? " time" : " times",
            " has not helped (divergence.max_rollbacks): ", absl::StrJoin(before, "; "),
            "; a lower optimizer.learning_rate or longer schedule.warmup_steps may; ", LastCommitText(fleet))),
        -1);
  }
  const int64_t end = divergence.samples_consumed();
  fleet.recovering.rollbacks.push_back(
      {.step = divergence.step(), .first_sample = end, .end_sample = end, .cause = cause});
  RegroupAll(fleet, text, now);
}

bool SettleRollback(Fleet& fleet, int64_t step) {
  if (!fleet.recovering.going_back()) return true;
  const int64_t consumed = fleet.members.front().samples_consumed;
  for (const Member& member : fleet.members) {
    if (member.samples_consumed == consumed) continue;
    FailFleet(fleet,
              absl::InternalError(absl::StrCat(NameOf(member), " has loaded a state that has consumed ",
                                               member.samples_consumed, " samples, ", NameOf(fleet.members.front()),
                                               " one of ", consumed)),
              member.rank);
    return false;
  }
  Rollback& rollback = fleet.recovering.rollbacks.back();
  rollback.resumed_step = step;
  rollback.first_sample = std::min(SkippedBy(fleet).Place(consumed, 0), rollback.end_sample);
  ++fleet.counters.rollbacks;
  fleet.Emit(PersistState{StateOf(fleet)}, "what is left out must outlive this process");
  v1::Event event;
  event.mutable_rollback()->set_generation(fleet.generation);
  event.mutable_rollback()->set_step(rollback.step);
  event.mutable_rollback()->set_cause(rollback.cause);
  event.mutable_rollback()->set_resumed_step(step);
  event.mutable_rollback()->set_first_sample(rollback.first_sample);
  event.mutable_rollback()->set_skipped_samples(rollback.end_sample - rollback.first_sample);
  fleet.Publish(std::move(event), LeftOutText(rollback));
  return true;
}

const Rollback* LeftOutSince(const std::vector<Rollback>& rollbacks, int64_t samples_consumed) {
  for (const Rollback& rollback : rollbacks) {
    if (rollback.first_sample < samples_consumed && samples_consumed <= rollback.end_sample) return &rollback;
  }
  return nullptr;
}

v1::Start StartOf(const Fleet& fleet) {
  v1::Start start;
  start.set_step(fleet.training.start_step);
  start.set_in_recovery(fleet.recovering.current.has_value());
  *start.mutable_skipped() = SkippedBy(fleet).ranges();
  for (const auto& [step, loss] : fleet.training.step_losses) start.add_losses(loss);
  return start;
}

void TakeStart(Fleet& fleet, const v1::Start& start) {
  fleet.training.start = start;
  for (const double loss : start.losses()) fleet.training.step_losses.emplace_back(start.step(), loss);
  // A coordinator that was started with --resume none does not know what its predecessor left out.
  SkippedSamples known = SkippedBy(fleet);
  for (const v1::SampleRange& range : start.skipped()) {
    if (known.Place(range.begin(), 0) >= range.end()) continue;
    fleet.recovering.rollbacks.push_back({.step = 0,
                                          .resumed_step = 0,
                                          .first_sample = range.begin(),
                                          .end_sample = range.end(),
                                          .cause = "as the coordinator before this one told"});
  }
}

void NoteLoss(Fleet& fleet, const v1::StepEvent& step) {
  const v1::DivergenceConfig& config = fleet.parameters.config.divergence();
  if (config.spike_factor() == 0 || !std::isfinite(step.loss()) || !std::isfinite(step.grad_norm())) return;
  fleet.training.step_losses.emplace_back(step.step(), step.loss());
  if (static_cast<int64_t>(fleet.training.step_losses.size()) > config.window_steps())
    fleet.training.step_losses.pop_front();
}

std::string RollbackText(const Fleet& fleet) {
  if (fleet.recovering.rollbacks.empty()) return "";
  const Rollback& last = fleet.recovering.rollbacks.back();
  if (last.step == 0) return LeftOutText(last);  // nothing else is known about it
  std::string text = TextOf(last.step, last.cause);
  if (last.resumed_step < 0) return text;
  absl::StrAppend(&text, "; went back to step ", last.resumed_step, ", ", LeftOutText(last));
  const size_t before = fleet.recovering.rollbacks.size() - 1;
  return before == 0 ? text : absl::StrCat(text, "; ", before, before == 1 ? " rollback" : " rollbacks", " before");
}

}  // namespace zerofleet::coordinator
