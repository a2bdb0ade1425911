// A greedy vertex cover; see broken_pairs.h.
#include "coordinator/broken_pairs.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "absl/strings/str_cat.h"

namespace zerofleet::coordinator {

BrokenPair PairOf(int rank, int other) { return {std::min(rank, other), std::max(rank, other)}; }

std::vector<int> CoverOf(std::set<BrokenPair> pairs) {
  std::vector<int> cover;
  while (!pairs.empty()) {
    std::map<int, int> pairs_of;  // by rank
    for (const auto& [low, high] : pairs) {
      ++pairs_of[low];
      ++pairs_of[high];
    }
    const auto most = std::max_element(pairs_of.begin(), pairs_of.end(), [](const auto& a, const auto& b) {
      return std::pair(a.second, a.first) < std::pair(b.second, b.first);
    });
    const int rank = most->first;
    cover.push_back(rank);
    std::erase_if(pairs, [rank](const BrokenPair& pair) { return pair.first == rank || pair.second == rank; });
  }
  std::sort(cover.begin(), cover.end());
  return cover;
}

std::string Describe(const std::set<BrokenPair>& pairs) {
  constexpr size_t kMostPairs = 8;
  std::string text = "ranks ";
  size_t named = 0;
  for (const auto& [low, high] : pairs) {
    if (named == kMostPairs) break;
    absl::StrAppend(&text, named++ == 0 ? "" : ", ", low, " and ", high);
  }
  if (pairs.size() > named) absl::StrAppend(&text, ", and ", pairs.size() - named, " more pairs");
  return absl::StrCat(text, " cannot reach each other");
}

}  // namespace zerofleet::coordinator
