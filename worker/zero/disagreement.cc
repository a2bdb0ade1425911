// Majorities, and the verdict as a payload of a status; see disagreement.h.
#include "worker/zero/disagreement.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace zerofleet::zero {

std::optional<v1::Disagreement> Judge(const std::vector<Answer>& answers) {
  const auto votes = [&answers](const DigestBits& digest) {
    return std::count_if(answers.begin(), answers.end(),
                         [&digest](const Answer& answer) { return answer.digest == digest; });
  };
  const int64_t all = static_cast<int64_t>(answers.size());
  const auto most = std::max_element(answers.begin(), answers.end(), [&votes](const Answer& a, const Answer& b) {
    return votes(a.digest) < votes(b.digest);
  });
  if (most == answers.end() || votes(most->digest) == all) return std::nullopt;
  v1::Disagreement disagreement;
  disagreement.set_undecided(2 * votes(most->digest) <= all);
  std::set<int> named;
  for (const Answer& answer : answers) {
    if (disagreement.undecided() || answer.digest != most->digest) named.insert(answer.rank);
  }
  for (int rank : named) disagreement.add_ranks(rank);
  return disagreement;
}

v1::Disagreement JoinVerdicts(const std::vector<v1::Disagreement>& verdicts) {
  const bool undecided = std::all_of(verdicts.begin(), verdicts.end(),
                                     [](const v1::Disagreement& verdict) { return verdict.undecided(); });
  std::set<int> named;
  for (const v1::Disagreement& verdict : verdicts) {
    if (verdict.undecided() == undecided) named.insert(verdict.ranks().begin(), verdict.ranks().end());
  }
  v1::Disagreement joined;
  joined.set_undecided(undecided);
  for (int rank : named) joined.add_ranks(rank);
  return joined;
}

absl::Status DisagreementError(const v1::Disagreement& disagreement, int64_t step, const std::string& what) {
  const bool one = disagreement.ranks_size() == 1;
  return WithPayload(
      absl::AbortedError(absl::StrCat("silent data corruption at step ", step, ": ", one ? "rank " : "ranks ",
                                      absl::StrJoin(disagreement.ranks(), ", "), one ? " disagrees" : " disagree",
                                      disagreement.undecided() ? " on " : " with the majority on ", what,
                                      disagreement.undecided() ? ", and there is no majority" : "")),
      disagreement);
}

}  // namespace zerofleet::zero
