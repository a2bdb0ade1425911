// See spread.h.
#include "worker/zero/spread.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace zerofleet::zero {

std::span<const double> Spread::Limits() {
  static const std::vector<double>& limits = *[] {
    constexpr double kFirst = 1e-12, kLast = 1e20, kWider = 1.1;
    std::vector<double> above;
    for (double limit = kFirst; limit < kLast; limit *= kWider) above.push_back(limit);
    above.push_back(std::numeric_limits<double>::max());
    auto* const all = new std::vector<double>();
    for (auto limit = above.rbegin(); limit != above.rend(); ++limit) all->push_back(-*limit);
    all->push_back(0);
    all->insert(all->end(), above.begin(), above.end());
    ZF_CHECK(all->size() == kBuckets);
    return all;
  }();
  return limits;
}

void Spread::Add(double value) {
  if (!std::isfinite(value)) return;
  ++count;
  least = std::min(least, value);
  most = std::max(most, value);
  sum.Add(value);
  squares.Add(value * value);
  if (++since_normalized_ == device::ExactSum::kMostAdded) {
    sum.Normalize();
    squares.Normalize();
    since_normalized_ = 0;
  }
  const std::span<const double> limits = Limits();
  const auto bucket = std::upper_bound(limits.begin(), limits.end(), value) - limits.begin();
  ++counts[static_cast<size_t>(std::min<int64_t>(bucket, kBuckets - 1))];
}

void Spread::Add(const Spread& other) {
  Spread normal = other;
  for (Spread* const one : {this, &normal}) {
    one->sum.Normalize();
    one->squares.Normalize();
    one->since_normalized_ = 0;
  }
  count += normal.count;
  least = std::min(least, normal.least);
  most = std::max(most, normal.most);
  sum.Add(normal.sum);
  squares.Add(normal.squares);
  for (size_t i = 0; i < counts.size(); ++i) counts[i] += normal.counts[i];
}

std::vector<Spread::Bucket> Spread::Buckets() const {
  std::vector<Bucket> buckets;
  const auto is_counted = [](int64_t in_bucket) { return in_bucket > 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), is_counted);
  const auto end = std::find_if(counts.rbegin(), counts.rend(), is_counted).base();
  if (first == counts.end()) return buckets;
  const std::span<const double> limits = Limits();
  if (first != counts.begin()) buckets.push_back({limits[static_cast<size_t>(first - counts.begin()) - 1], 0});
  for (auto at = first; at != end; ++at) {
    const double limit = limits[static_cast<size_t>(at - counts.begin())];
    if (*at == 0 && buckets.back().count == 0) {
      buckets.back().limit = limit;
    } else {
      buckets.push_back({limit, *at});
    }
  }
  return buckets;
}

}  // namespace zerofleet::zero
