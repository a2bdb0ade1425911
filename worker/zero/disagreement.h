// Digests of bits that must be equal on several ranks: whether they are, and if not, which ranks a majority
// contradicts.
//
// Every rank judges the same answers, so all reach the same verdict. It travels with the status that ends the step, and
// from there to the coordinator (Failure.disagreement), which replaces the ranks that are wrong.
#ifndef ZEROFLEET_WORKER_ZERO_DISAGREEMENT_H_
#define ZEROFLEET_WORKER_ZERO_DISAGREEMENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/digest.h"
#include "base/status_payload.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::zero {

// What one rank says the digest is. A rank may answer more than once.
struct Answer {
  int rank;  // rank of the view
  DigestBits digest;
};

// None if all answers are equal. If more than half of them are equal, the ranks that gave other answers are named;
// otherwise nothing is decided, and all ranks are named. Ranks are ascending, each once.
std::optional<v1::Disagreement> Judge(const std::vector<Answer>& answers);

// Joins comparisons that each found a disagreement: the ranks that a majority contradicts in any of them; if there is
// none, all ranks that were named.
v1::Disagreement JoinVerdicts(const std::vector<v1::Disagreement>& verdicts);

// Aborted: the view cannot go on. `what` is what was compared: "the parameters".
absl::Status DisagreementError(const v1::Disagreement& disagreement, int64_t step, const std::string& what);
// The verdict in a status of DisagreementError; none for any other status.
inline std::optional<v1::Disagreement> DisagreementOf(const absl::Status& status) {
  return PayloadOf<v1::Disagreement>(status);
}

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_DISAGREEMENT_H_
