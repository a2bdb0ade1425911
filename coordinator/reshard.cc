// Intersection of sorted ranges; see reshard.h.
#include "coordinator/reshard.h"

#include <algorithm>
#include <span>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace zerofleet::coordinator {
namespace {

struct SourceRange {
  PlacedRange range;
  int source;
};

std::vector<SourceRange> SortedByFlatBegin(const std::vector<std::vector<PlacedRange>>& sources) {
  std::vector<SourceRange> all;
  for (int s = 0; s < static_cast<int>(sources.size()); ++s) {
    for (const PlacedRange& range : sources[s]) all.push_back({range, s});
  }
  std::sort(all.begin(), all.end(), [](const SourceRange& a, const SourceRange& b) {
    return std::tuple(a.range.flat_begin, a.source) < std::tuple(b.range.flat_begin, b.source);
  });
  return all;
}

}  // namespace

absl::StatusOr<std::vector<RangeCopy>> Reshard(const std::vector<std::vector<PlacedRange>>& sources,
                                               const std::vector<PlacedRange>& target) {
  const std::vector<SourceRange> all = SortedByFlatBegin(sources);
  std::vector<int64_t> reached;  // the largest flat_end of all ranges up to each
  for (const SourceRange& have : all) {
    reached.push_back(std::max(reached.empty() ? 0 : reached.back(), have.range.flat_end));
  }
  std::vector<RangeCopy> copies;
  for (const PlacedRange& wanted : target) {
    int64_t next = wanted.flat_begin;  // first element of `wanted` not yet covered
    const auto first = std::upper_bound(reached.begin(), reached.end(), next) - reached.begin();
    for (const SourceRange& have : std::span(all).subspan(static_cast<size_t>(first))) {
      if (next >= wanted.flat_end || have.range.flat_begin > next) break;
      if (have.range.flat_end <= next) continue;
      int64_t end = std::min(have.range.flat_end, wanted.flat_end);
      copies.push_back({have.source, have.range.offset + (next - have.range.flat_begin),
                        wanted.offset + (next - wanted.flat_begin), end - next});
      next = end;
    }
    if (next < wanted.flat_end) {
      return absl::DataLossError(absl::StrCat("element ", next, " of the flat space is in no source"));
    }
  }
  std::sort(copies.begin(), copies.end(), [](const RangeCopy& a, const RangeCopy& b) {
    return std::tuple(a.source, a.source_offset) < std::tuple(b.source, b.source_offset);
  });
  return copies;
}

}  // namespace zerofleet::coordinator
