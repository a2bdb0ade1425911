// The peak rate that MFU refers to: the datasheet's, or the best measured so far, which only grows.
//
// A measurement made while other processes start or run is too low, and a step would then exceed it. So every rank
// measures until its best is confirmed, again after a few early steps, and a step that is faster than any measurement
// raises the peak itself: the ratio never exceeds 1, and a note says when and why the peak was raised. A run that is
// over in seconds would spend most of its time on this, so it measures only one product.
#ifndef ZEROFLEET_WORKER_TRAINER_PEAK_METER_H_
#define ZEROFLEET_WORKER_TRAINER_PEAK_METER_H_

#include <cstdint>
#include <functional>
#include <string>

namespace zerofleet::trainer {

class PeakMeter {
 public:
  // Whether a run of this many FLOPs per rank is at least 25 times as long as the careful measurement, which takes
  // about 40 GFLOP.
  static bool IsWorthCare(double rank_flops);

  // Calls `measure` (FLOP/s, each call the best of a few short rounds) until a second result is close to the best, or
  // it has been called kMostSeries times. Returns the best.
  static constexpr int kMostSeries = 5;
  static double BestOfSeries(const std::function<double()>& measure);

  // Whether to measure again after the `steps_done`-th step since the start: a few times, at growing intervals.
  static bool MeasuresAfter(int64_t steps_done);

  // The peak of all ranks; a lower value than before changes nothing. With `datasheet`, the value is the datasheet's,
  // which no measurement can exceed.
  void Offer(double flops_per_second, bool datasheet);
  double flops_per_second() const { return peak_; }

  // Returns the share of the peak, at most 1. `note` is set to a line for the log if the step was faster than the peak
  // by more than any noted before; otherwise it is empty.
  double Utilization(int64_t step, double flops_per_second, std::string* note);

 private:
  double peak_ = 0, noted_ = 0;
  bool datasheet_ = false;
};

}  // namespace zerofleet::trainer

#endif  // ZEROFLEET_WORKER_TRAINER_PEAK_METER_H_
