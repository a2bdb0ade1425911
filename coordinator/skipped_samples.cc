// Sorted ranges; see skipped_samples.h.
#include "coordinator/skipped_samples.h"

#include <algorithm>

namespace zerofleet::coordinator {

SkippedSamples::SkippedSamples(const Ranges& ranges) {
  for (const v1::SampleRange& range : ranges) Add(range.begin(), range.end());
}

void SkippedSamples::Add(int64_t begin, int64_t end) {
  if (begin >= end) return;
  std::vector<Range> merged;
  for (const Range& range : ranges_) {
    if (range.end < begin || range.begin > end) {
      merged.push_back(range);
    } else {
      begin = std::min(begin, range.begin);
      end = std::max(end, range.end);
    }
  }
  merged.push_back({begin, end});
  std::sort(merged.begin(), merged.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  ranges_ = std::move(merged);
}

int64_t SkippedSamples::Place(int64_t place, int64_t count) const {
  for (const Range& range : ranges_) {
    if (range.end <= place) continue;
    const int64_t before = std::max<int64_t>(0, range.begin - place);
    if (count < before) break;
    count -= before;
    place = range.end;
  }
  return place + count;
}

SkippedSamples::Ranges SkippedSamples::ranges() const {
  Ranges ranges;
  for (const Range& range : ranges_) {
    v1::SampleRange& added = *ranges.Add();
    added.set_begin(range.begin);
    added.set_end(range.end);
  }
  return ranges;
}

}  // namespace zerofleet::coordinator
