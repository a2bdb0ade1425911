// Measuring while nobody trains; see peak_search.h.
#include "worker/trainer/peak_search.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/status.h"
#include "worker/trainer/peak_meter.h"

namespace zerofleet::trainer {
namespace {

constexpr int kAsManyAsItTakes = -1;  // a number of rounds: until the result is reliable

}  // namespace

absl::Status PeakSearch::Begin(ViewParts& view, bool in_recovery) {
  const int rounds = mine_ > 0 ? 0 : 1;
  ZF_RETURN_IF_ERROR(Measure(view, in_recovery || !careful_ ? rounds : kAsManyAsItTakes));
  if (device_.datasheet_flops(dtype_) > 0) return absl::OkStatus();
  ZF_ASSIGN_OR_RETURN(const std::vector<double> last, view.engine->GatherFromRanks(last_));
  const double best = *std::max_element(last.begin(), last.end());
  view.peak.Offer(best * view.mesh.world_size(), /*datasheet=*/false);
  view.knows_peak = best > 0;
  return absl::OkStatus();
}

absl::Status PeakSearch::Measure(ViewParts& view, int rounds) {
  const double datasheet = device_.datasheet_flops(dtype_);
  double measured = datasheet;
  if (datasheet <= 0 && rounds > 0) {
    measured = device_.ops().MeasureGemmPeak(dtype_, rounds);
  } else if (datasheet <= 0 && rounds == kAsManyAsItTakes) {
    constexpr int kRounds = 3;
    measured = PeakMeter::BestOfSeries([&] { return device_.ops().MeasureGemmPeak(dtype_, kRounds); });
  }
  mine_ = std::max(mine_, measured);
  ZF_ASSIGN_OR_RETURN(std::vector<double> all, view.engine->GatherFromRanks(mine_));
  view.peak.Offer(std::accumulate(all.begin(), all.end(), 0.0), datasheet > 0);
  return absl::OkStatus();
}

absl::Status PeakSearch::Again(ViewParts& view) {
  constexpr int kRounds = 2;
  if (!device_.host_addressable() || view.knows_peak || !careful_) return absl::OkStatus();
  if (!PeakMeter::MeasuresAfter(view.steps_done)) return absl::OkStatus();
  return Measure(view, kRounds);
}

void PeakSearch::Leave(const ViewParts& view) {
  if (view.peak.flops_per_second() > 0) last_ = view.peak.flops_per_second() / view.mesh.world_size();
}

}  // namespace zerofleet::trainer
