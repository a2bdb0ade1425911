// Waiting for commits, going on without them, and their late answers; see outlived_commit.h.
#include "coordinator/outlived_commit.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/committed.h"
#include "coordinator/failed_save.h"

namespace zerofleet::coordinator {
namespace {

// Settles this generation's saves of steps up to `step` as committed, since an earlier generation's commit covers them.
void SettleSavesUpTo(Fleet& fleet, int64_t step) {
  while (!fleet.saving.commits.empty() && fleet.saving.commits.begin()->first <= step) {
    const auto& [saved, commit] = *fleet.saving.commits.begin();
    fleet.SendToAll(OutcomeOf(saved, commit.retry, true, ""), "an earlier generation's commit has succeeded");
    fleet.saving.commits.erase(fleet.saving.commits.begin());
  }
}

}  // namespace

bool AwaitsCommit(const Fleet& fleet) {
  return !fleet.saving.commits.empty() || (fleet.recovering.going_back() && !fleet.saving.outlived.empty());
}

bool OutliveCommits(Fleet& fleet) {
  if (fleet.saving.commits.empty() || fleet.recovering.going_back()) return false;
  for (auto& [step, commit] : std::exchange(fleet.saving.commits, {})) {
    fleet.PublishNotice(
        absl::StrCat("step ", step, " is still being committed after ", fleet.form_timeout_seconds(),
                     " s (restart.form_timeout_seconds): going on without it; if it succeeds, it counts"));
    fleet.saving.outlived.emplace(std::pair(commit.generation, step), std::move(commit));
  }
  return true;
}

bool OnLateAnswer(Fleet& fleet, const ManifestWritten& written) {
  const auto found = fleet.saving.outlived.find({written.generation, written.step});
  if (found == fleet.saving.outlived.end()) return false;
  found->second.answer = written;
  SettleLateAnswers(fleet);
  return true;
}

bool HasLateCommit(const Fleet& fleet) {
  return std::any_of(fleet.saving.outlived.begin(), fleet.saving.outlived.end(), [](const auto& entry) {
    const std::optional<ManifestWritten>& answer = entry.second.answer;
    return answer.has_value() && answer->status.ok();
  });
}

void SettleLateAnswers(Fleet& fleet) {
  if (fleet.phase == Phase::kLoading) return;
  for (auto at = fleet.saving.outlived.begin(); at != fleet.saving.outlived.end();) {
    if (!at->second.answer) {
      ++at;
      continue;
    }
    const PendingCommit commit = std::move(at->second);
    at = fleet.saving.outlived.erase(at);
    const ManifestWritten& written = *commit.answer;
    if (!written.status.ok()) {
      fleet.PublishNotice(absl::StrCat(
          "step ", written.step, ", which the fleet went on without, was not committed: ", written.status.message()));
      fleet.Emit(DiscardSave{written.step, commit.generation}, "its commit has failed");
      continue;
    }
    SettleSavesUpTo(fleet, written.step);
    NoteCommitted(fleet, written, commit);
  }
}

std::string AwaitedCommitText(const Fleet& fleet) {
  if (!AwaitsCommit(fleet)) return "";
  const int64_t step =
      fleet.saving.commits.empty() ? fleet.saving.outlived.begin()->first.second : fleet.saving.commits.begin()->first;
  return absl::StrCat("; waiting for the commit of step ", step);
}

}  // namespace zerofleet::coordinator
