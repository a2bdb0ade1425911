// Cycles, slots, sets; see mixture.h.
#include "worker/data/mixture.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace zerofleet::data {
namespace {

// Make the seeds of set d and of the cycles, far apart from the run's seed, which the first set keeps, and from one
// another.
constexpr uint64_t kSeedStride = 0x9e3779b97f4a7c15u, kCycleSeed = 0xd1b54a32d192ed03u;
constexpr size_t kLongestSetName = 64;

}  // namespace

Mixture::Mixture(uint64_t seed, std::span<const int64_t> samples, std::span<const int64_t> weights) {
  if (weights.empty()) {
    const int64_t all = std::accumulate(samples.begin(), samples.end(), int64_t{0});
    sets_.push_back({0, 1, 0, all, Sampler(seed, all)});
    return;
  }
  ZF_CHECK(weights.size() == samples.size());
  const int64_t divisor =
      std::accumulate(weights.begin(), weights.end(), int64_t{0}, [](int64_t a, int64_t b) { return std::gcd(a, b); });
  ZF_CHECK(divisor >= 1);
  int64_t slot = 0, sample = 0;
  for (size_t d = 0; d < weights.size(); ++d) {
    const int64_t end = slot + weights[d] / divisor;
    sets_.push_back({slot, end, sample, samples[d], Sampler(seed + d * kSeedStride, samples[d])});
    slot = end;
    sample += samples[d];
  }
  cycle_ = slot;
  slots_ = Sampler(seed ^ kCycleSeed, cycle_);
}

Mixture::Place Mixture::At(int64_t position) const {
  if (sets_.size() == 1) return {0, position};
  const int64_t slot = slots_.Sample(position);
  const auto set = std::upper_bound(sets_.begin(), sets_.end(), slot,
                                    [](int64_t value, const OneSet& each) { return value < each.end_slot; });
  const int64_t weight = set->end_slot - set->first_slot;
  return {static_cast<int>(set - sets_.begin()), position / cycle_ * weight + slot - set->first_slot};
}

int64_t Mixture::Sample(int64_t position) const {
  const Place place = At(position);
  const OneSet& set = sets_[place.set];
  return set.first_sample + set.order.Sample(place.index);
}

int Mixture::Set(int64_t position) const { return At(position).set; }

std::vector<int64_t> Mixture::Counts(int64_t end) const {
  std::vector<int64_t> counts(sets_.size());
  const int64_t cycles = end / cycle_;
  for (int d = 0; d < sets(); ++d) counts[d] = cycles * weight(d);
  for (int64_t position = cycles * cycle_; position < end; ++position) ++counts[Set(position)];
  return counts;
}

absl::Status CheckWeights(const v1::DataConfig& config) {
  if (config.train_weights().empty()) return absl::OkStatus();
  if (config.train_weights_size() != config.train_size()) {
    return absl::InvalidArgumentError(absl::StrCat("must have one weight for each entry of data.train, ",
                                                   config.train_size(), ", got ", config.train_weights_size()));
  }
  int64_t all = 0;
  for (const int64_t weight : config.train_weights()) {
    if (weight < 1) return absl::InvalidArgumentError(absl::StrCat("a weight must be >= 1, got ", weight));
    all = std::min(all, kLongestCycle) + std::min(weight, kLongestCycle + 1);
  }
  if (all <= kLongestCycle) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the weights must be at most ", kLongestCycle, " in all as integers; give them fewer digits"));
}

absl::Status CheckSetNames(const v1::DataConfig& config) {
  const auto& names = config.validation_sets();
  if (names.empty()) return absl::OkStatus();
  if (names.size() != config.validation_size()) {
    return absl::InvalidArgumentError(absl::StrCat("must have one name for each entry of data.validation, ",
                                                   config.validation_size(), ", got ", names.size()));
  }
  std::set<std::string> ended;
  for (int i = 0; i < names.size(); ++i) {
    const std::string& name = names[i];
    const auto good = [](char c) { return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.'; };
    if (name.empty() || name.size() > kLongestSetName || !std::all_of(name.begin(), name.end(), good)) {
      return absl::InvalidArgumentError(absl::StrCat("a set's name must be 1 to ", kLongestSetName,
                                                     " letters, digits, '_', '-' and '.', got \"", name, "\""));
    }
    if (i > 0 && name != names[i - 1]) ended.insert(names[i - 1]);
    if (ended.count(name) > 0) {
      return absl::InvalidArgumentError(absl::StrCat("the entries of ", name, " must follow one another"));
    }
  }
  return absl::OkStatus();
}

}  // namespace zerofleet::data
