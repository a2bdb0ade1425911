// A history, and its count by rank; see losses.h.
#include "coordinator/losses.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace zerofleet::coordinator {
namespace {

constexpr size_t kMostHistory = 12;  // the most losses in one message

template <typename Steps, typename Predicate>
int64_t CountOf(const std::unordered_map<int, std::vector<Steps>>& steps, int rank, Predicate counts) {
  const auto found = steps.find(rank);
  return found == steps.end() ? 0 : std::count_if(found->second.begin(), found->second.end(), counts);
}

}  // namespace

void Losses::Add(RankLoss loss) {
  steps_[loss.rank].push_back({loss.step, loss.reached});
  losses_.push_back(std::move(loss));
}

int64_t Losses::Since(int rank, int64_t step) const {
  return CountOf(steps_, rank, [step](const Steps& lost) { return lost.reached >= step; });
}

int64_t Losses::At(int rank, int64_t step) const {
  return CountOf(steps_, rank, [step](const Steps& lost) { return lost.step == step; });
}

std::string Losses::Text() const {
  std::string text = absl::StrCat(losses_.size(), losses_.size() == 1 ? " loss: " : " losses: ");
  const size_t first = losses_.size() > kMostHistory ? losses_.size() - kMostHistory : 0;
  for (size_t i = first; i < losses_.size(); ++i) {
    absl::StrAppend(&text, i == first ? "" : "; ", losses_[i].text);
  }
  return text;
}

}  // namespace zerofleet::coordinator
