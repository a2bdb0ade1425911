// A walk over the stretches of steps with one batch; see batch_schedule.h.
#include "coordinator/batch_schedule.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace zerofleet::coordinator {
namespace {

constexpr int kMostChanges = 1000;
constexpr int64_t kMostStep = 1'000'000'000'000, kMostBatch = 1'000'000'000;

// Calls visit(first step, first step beyond, sequences per step) for every stretch of steps before `end`, until it
// returns false. `Number` is any type that counts steps.
template <typename Number, typename Visit>
void ForEachStretch(const v1::BatchConfig& batch, Number end, const Visit& visit) {
  Number first = 1;
  int64_t sequences = batch.global_sequences();
  for (int i = 0; i < batch.schedule_size() && first < end; ++i) {
    const Number next = std::min(static_cast<Number>(batch.schedule_steps(i)), end);
    if (!visit(first, next, sequences)) return;
    first = next;
    sequences = batch.schedule(i);
  }
  if (first < end) visit(first, end, sequences);
}

}  // namespace

std::string ScheduleError(const v1::BatchConfig& batch) {
  if (batch.schedule_size() != batch.schedule_steps_size()) {
    return absl::StrCat("must be {from_step: S, global_sequences: N} each, got ", batch.schedule_size(),
                        " batches and ", batch.schedule_steps_size(), " steps");
  }
  if (batch.schedule_size() > kMostChanges) {
    return absl::StrCat("has ", batch.schedule_size(), " entries; at most ", kMostChanges, " are allowed");
  }
  int64_t before = 1;
  for (int i = 0; i < batch.schedule_size(); ++i) {
    const int64_t step = batch.schedule_steps(i), sequences = batch.schedule(i);
    if (step <= before || step > kMostStep) {
      return absl::StrCat(
          "entry ", i + 1, ": from_step must be > ",
          i == 0 ? "1, the step that batch.global_sequences is of" : absl::StrCat(before, ", the one before it"),
          ", and <= 1e12, got ", step);
    }
    if (sequences < 1 || sequences > kMostBatch) {
      return absl::StrCat("entry ", i + 1, ": global_sequences must be 1 to 1e9, got ", sequences);
    }
    before = step;
  }
  return "";
}

int64_t SequencesOf(const v1::BatchConfig& batch, int64_t step) {
  const auto& steps = batch.schedule_steps();
  const auto entry = std::upper_bound(steps.begin(), steps.end(), step) - steps.begin();
  return entry == 0 ? batch.global_sequences() : batch.schedule(static_cast<int>(entry) - 1);
}

int64_t SequencesBetween(const v1::BatchConfig& batch, int64_t after, int64_t step) {
  int64_t all = 0;
  ForEachStretch(batch, step + 1, [&](int64_t first, int64_t end, int64_t sequences) {
    all += std::max<int64_t>(0, end - std::max(first, after + 1)) * sequences;
    return true;
  });
  return all;
}

double SequencesInAll(const v1::BatchConfig& batch, double steps) {
  double all = 0;
  ForEachStretch(batch, steps + 1, [&](double first, double end, int64_t sequences) {
    all += (end - first) * static_cast<double>(sequences);
    return true;
  });
  return all;
}

double StepsTaking(const v1::BatchConfig& batch, double sequences) {
  constexpr double kForever = 1e300;
  double steps = 0, left = sequences;
  ForEachStretch(batch, kForever, [&](double first, double end, int64_t each) {
    const double taken = std::min(left / static_cast<double>(each), end - first);
    steps += taken;
    left -= taken * static_cast<double>(each);
    return taken == end - first;
  });
  return steps;
}

int64_t LeastSequences(const v1::BatchConfig& batch) {
  const auto& later = batch.schedule();
  const int64_t first = batch.global_sequences();
  return later.empty() ? first : std::min(first, *std::min_element(later.begin(), later.end()));
}

int64_t MostSequences(const v1::BatchConfig& batch) {
  const auto& later = batch.schedule();
  const int64_t first = batch.global_sequences();
  return later.empty() ? first : std::max(first, *std::max_element(later.begin(), later.end()));
}

std::string BatchText(const v1::BatchConfig& batch) {
  const int64_t least = LeastSequences(batch), most = MostSequences(batch);
  return absl::StrCat(least == most ? "" : absl::StrCat(least, " to "), most);
}

}  // namespace zerofleet::coordinator
