// How values are spread, in TensorBoard's default buckets: what a histogram is made of.
//
// Everything in it is a count, an extreme or a sum without rounding, so the spreads of a tensor's parts add up to that
// of the whole, however it is cut and in any order.
#ifndef ZEROFLEET_WORKER_ZERO_SPREAD_H_
#define ZEROFLEET_WORKER_ZERO_SPREAD_H_

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "worker/device/exact_sum.h"

namespace zerofleet::zero {

struct Spread {
  // Ends of buckets, ascending: from 1e-12 to 1e20 each 1.1 times the one before, then the largest double; the same for
  // negative values, with 0 between (tensorflow/core/lib/histogram). A value is in the first bucket whose end is above
  // it.
  static constexpr int kBuckets = 2 * 775 + 1;
  static std::span<const double> Limits();

  // Values that are not finite are left out.
  void Add(double value);
  void Add(const Spread& other);

  struct Bucket {
    double limit = 0;
    int64_t count = 0;
  };
  // The buckets from the first that is not empty to the last; a run of empty buckets in between is merged into one, and
  // one empty bucket comes before the first.
  std::vector<Bucket> Buckets() const;

  int64_t count = 0;
  double least = std::numeric_limits<double>::infinity(), most = -std::numeric_limits<double>::infinity();
  device::ExactSum sum, squares;
  std::array<int64_t, kBuckets> counts = {};

 private:
  int64_t since_normalized_ = 0;
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_SPREAD_H_
