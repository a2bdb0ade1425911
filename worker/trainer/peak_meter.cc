// See peak_meter.h.
#include "worker/trainer/peak_meter.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_format.h"

namespace zerofleet::trainer {

bool PeakMeter::IsWorthCare(double rank_flops) { return rank_flops >= 1e12; }

double PeakMeter::BestOfSeries(const std::function<double()>& measure) {
  constexpr double kClose = 0.97;
  double best = 0;
  for (int series = 0; series < kMostSeries; ++series) {
    const double one = measure();
    const bool confirmed = series > 0 && std::min(one, best) >= kClose * std::max(one, best);
    best = std::max(best, one);
    if (confirmed) break;
  }
  return best;
}

bool PeakMeter::MeasuresAfter(int64_t steps_done) {
  constexpr std::array<int64_t, 4> kAfter = {10, 30, 100, 300};
  return std::find(kAfter.begin(), kAfter.end(), steps_done) != kAfter.end();
}

void PeakMeter::Offer(double flops_per_second, bool datasheet) {
  datasheet_ = datasheet_ || datasheet;
  peak_ = std::max(peak_, flops_per_second);
}

double PeakMeter::Utilization(int64_t step, double flops_per_second, std::string* note) {
  note->clear();
  if (peak_ <= 0) return 0;
  if (flops_per_second <= peak_) return flops_per_second / peak_;
  // Noted again only if it is a new maximum.
  constexpr double kNews = 1.1;
  if (flops_per_second > kNews * noted_) {
    noted_ = flops_per_second;
    *note =
        absl::StrFormat("step %d ran at %.4g TFLOP/s, above the %s of %.4g TFLOP/s; %s", step, flops_per_second / 1e12,
                        datasheet_ ? "datasheet's peak" : "measured GEMM peak", peak_ / 1e12,
                        datasheet_ ? "its mfu is reported as 1"
                                   : "the machine was busier when the peak was measured; the step's rate is the "
                                     "peak from here on");
  }
  if (!datasheet_) peak_ = flops_per_second;
  return 1;
}

}  // namespace zerofleet::trainer
