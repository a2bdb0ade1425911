// From a status to the message; see failure_report.h.
#include "worker/trainer/failure_report.h"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "base/cut_text.h"
#include "worker/collective/unreachable.h"
#include "worker/memory/scratch_file.h"
#include "worker/zero/disagreement.h"
#include "worker/zero/divergence.h"

namespace zerofleet::trainer {

namespace {

constexpr size_t kMostMessageBytes = 4096;  // more than is shown to people, and less than any message may hold

}  // namespace

v1::Failure FailureOf(const absl::Status& status, int64_t step) {
  v1::Failure failure;
  failure.set_code(static_cast<int>(status.code()));
  failure.set_message(CutText(std::string(status.message()), kMostMessageBytes));
  failure.set_step(step);
  failure.set_own_storage(memory::IsOfScratchFile(status));
  if (std::optional<v1::Disagreement> disagreement = zero::DisagreementOf(status)) {
    *failure.mutable_disagreement() = *std::move(disagreement);
  }
  if (std::optional<v1::Divergence> divergence = zero::DivergenceOf(status)) {
    *failure.mutable_divergence() = *std::move(divergence);
  }
  return failure;
}

void NameUnreachable(const absl::Status& status, const parallel::Mesh& mesh, v1::Failure& failure) {
  const std::optional<collective::UnreachablePeer> peer = collective::UnreachablePeerOf(status);
  if (!peer) return;
  for (const parallel::Group& group : mesh.groups()) {
    const bool known = group.name == peer->group && peer->peer >= 0 && peer->peer < group.size();
    if (known) failure.set_unreachable_rank(group.ranks[peer->peer]);
  }
}

}  // namespace zerofleet::trainer
