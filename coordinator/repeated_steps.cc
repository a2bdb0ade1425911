// Comparing repeated steps, bit by bit; see repeated_steps.h.
#include "coordinator/repeated_steps.h"

#include <bit>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/batch_shares.h"
#include "coordinator/fleet.h"

namespace zerofleet::coordinator {
namespace {

constexpr size_t kMostUncommitted = 1 << 20;  // bounds the memory of a run that never saves

bool SameBits(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

// Whether repeating the step must give the same numbers.
bool MustRepeat(const Fleet& fleet, const DoneStep& before) {
  const v1::Config& config = fleet.parameters.config;
  const bool same_order = before.world_size == fleet.world_size() || SumsInSampleOrder(config);
  const bool same_samples = before.rollbacks == fleet.recovering.rollbacks.size();
  return same_samples && same_order && config.offload().delayed_update().after_steps() == 0 && !fleet.mixed_environment;
}

}  // namespace

void NoteStep(Fleet& fleet, const v1::StepEvent& step) {
  RecentSteps& recent = fleet.training.recent;
  recent.uncommitted.push_back({step.step(), step.seconds(), step.loss(), step.grad_norm(), fleet.world_size(),
                                fleet.recovering.rollbacks.size()});
  if (recent.uncommitted.size() > kMostUncommitted) recent.uncommitted.pop_front();
  const auto lost = recent.repeated.find(step.step());
  if (lost == recent.repeated.end()) return;
  const DoneStep before = lost->second;
  recent.repeated.erase(lost);
  const bool same = SameBits(before.loss, step.loss()) && SameBits(before.grad_norm, step.grad_norm());
  if (same || !MustRepeat(fleet, before)) return;
  ++fleet.counters.steps_that_differ;
  fleet.PublishNotice(absl::StrFormat(
      "step %d, done again, has loss %.17g and gradient norm %.17g; before the recovery it had %.17g and %.17g: a rank "
      "computes wrong numbers, or did; integrity.every_steps and integrity.replay_every_steps find out which",
      step.step(), step.loss(), step.grad_norm(), before.loss, before.grad_norm));
}

double LoseStepsAfter(Fleet& fleet, int64_t step) {
  RecentSteps& recent = fleet.training.recent;
  double seconds = 0;
  for (; !recent.uncommitted.empty() && recent.uncommitted.back().step > step; recent.uncommitted.pop_back()) {
    seconds += recent.uncommitted.back().seconds;
    recent.repeated.insert_or_assign(recent.uncommitted.back().step, recent.uncommitted.back());
  }
  return seconds;
}

}  // namespace zerofleet::coordinator
