// Edit distance with swaps of neighbours (optimal string alignment), three rows at a time; see nearest.h.
#include "cli/config/nearest.h"

#include <algorithm>

namespace zerofleet::cli {

int EditDistance(std::string_view a, std::string_view b) {
  std::vector<int> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replace});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::string Nearest(std::string_view name, const std::vector<std::string>& candidates) {
  // A name is short; a longer one is cut so that a hostile file cannot cost quadratic time.
  name = name.substr(0, 64);
  std::string best;
  int best_distance = 0;
  for (const std::string& candidate : candidates) {
    const int distance = EditDistance(name, candidate);
    const size_t longer = std::max(name.size(), candidate.size());
    const int most = longer <= 4 ? 1 : longer <= 8 ? 2 : 3;
    if (distance > most || (!best.empty() && distance >= best_distance)) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

std::string Alternatives(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 < names.size() ? ", " : " or ";
    text += names[i];
  }
  return text;
}

std::string NearestOrAll(std::string_view name, const std::vector<std::string>& names) {
  const std::string nearest = Nearest(name, names);
  return nearest.empty() ? "use " + Alternatives(names) : "did you mean " + nearest + "?";
}

}  // namespace zerofleet::cli
