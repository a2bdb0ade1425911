// Finding numbers that went wrong in silence: what must be equal on several ranks is digested and compared.
//
// Two things are compared, at steps that the configuration chooses, before the optimizer runs. With ranks that disagree
// the step ends in an error on every rank (disagreement.h), and nothing of it reaches the optimizer's states.
//
// - Parameters: stages 0 to 2 keep all of them on every rank. Each rank digests those that the step has used, in the
//   compute type. Cost: they are read once (2Ψ bytes in bf16) by one thread, and 16 bytes go to each other rank. In
//   stage 3 there is nothing to compare.
// - Replays: every op is deterministic, so a second computation must give the same bits. Before its own micro-batches a
//   rank computes the first one of the next rank, and digests its loss and each unit's gradient (fp32, where it would
//   be handed to the reduction) as the owner does with its own. Cost: forward and backward of one micro-batch, two
//   reads of 4Ψ bytes, in stage 3 the gathers of one pass, and 32 bytes to each other rank. Where the two differ, other
//   ranks compute it once more, and a majority decides; with two ranks each repeats its own, and a fault that does not
//   come again is one rank's disagreement with itself.
//
// In a group of one rank nothing is compared. Digests are made by the host of memory that it can address; on a device
// without such memory, as that of a dry run, the passes and gathers are made alone.
#ifndef ZEROFLEET_WORKER_ZERO_INTEGRITY_H_
#define ZEROFLEET_WORKER_ZERO_INTEGRITY_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/digest.h"
#include "worker/zero/disagreement.h"
#include "worker/zero/engine_parts.h"

namespace zerofleet::zero {

// The unit of the gathered digests.
inline constexpr const char* kDigestsUnit = "digests";

// What a step compares; the same on every rank.
struct StepChecks {
  bool parameters = false;
  bool replay = false;
};

// The digest of one pass: what is added to it, in order.
class PassDigest {
 public:
  explicit PassDigest(const EngineParts& parts) : parts_(parts) {}
  // Waits until the stream has written it.
  absl::Status Add(const void* data, int64_t bytes);
  DigestBits Bits() const { return digest_.Bits(); }

 private:
  const EngineParts& parts_;
  StreamingDigest digest_;
};

// A rank's first replay computes the micro-batch of the rank this many places further on.
inline constexpr int kFirstReplay = 1;

class IntegrityChecker {
 public:
  explicit IntegrityChecker(const EngineParts& parts);

  // Collective, if there is anything to compare. `resting` are all parameters, which the stream has written. Aborted if
  // ranks disagree, with the verdict (DisagreementOf).
  absl::Status CheckParameters(int64_t step, device::Tensor resting);

  // The number of the rank `away` places further on in the group.
  int Neighbour(int away) const { return (parts_.communicator.rank() + away) % parts_.communicator.size(); }
  // Another computation of the first micro-batch of the rank with this number; collective, as the pass is.
  using Replayer = std::function<absl::StatusOr<DigestBits>(int number)>;
  // Collective. `own`: of this rank's first micro-batch; `replayed`: of that of Neighbour(kFirstReplay). Aborted if
  // ranks disagree, with the verdict. `replay` is called only then, on every rank alike, and overwrites gradients.
  absl::Status CompareReplays(int64_t step, const DigestBits& own, const DigestBits& replayed, const Replayer& replay);

  bool compares() const { return parts_.communicator.size() > 1; }

 private:
  absl::StatusOr<DigestBits> DigestOfParameters(device::Tensor resting) const;
  // Collective: digests_ are every rank's.
  absl::Status Gather(const DigestBits& mine);
  // Gathers the digest of the micro-batch of the rank `away` places further on. `answers` are indexed by owner rank.
  using AnswersByBatch = std::vector<std::vector<Answer>>;
  absl::Status GatherAnswers(const DigestBits& mine, int away, AnswersByBatch& answers);

  const EngineParts& parts_;
  const ZeroLayout& layout_;
  std::vector<DigestBits> digests_;  // by number in the group
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_INTEGRITY_H_
