// Finding numbers that went wrong in silence: what must be equal on several ranks is digested and compared.
//
// Two things are compared, at steps that the configuration chooses, before the optimizer runs. If ranks disagree, the
// step ends in an error on every rank (disagreement.h), and nothing of it reaches the optimizer's states.
//
// - Parameters: stages 0 to 2 keep all of them on every rank. Each rank digests the parameters that the step has used,
//   in the compute type. Cost: they are read once (2Ψ bytes in bf16) by one thread, and 16 bytes go to each other rank.
//   In stage 3 there is nothing to compare.
// - Replays: every op is deterministic, so a second computation must give the same bits. Before its own micro-batches a
//   rank computes the first one of the next rank, and digests its loss and each unit's gradient (in fp32, where it
//   would be handed to the reduction); the next rank does the same with its own computation. Cost: forward and backward
//   of one micro-batch, two reads of 4Ψ bytes, in stage 3 the gathers of one pass, and 32 bytes to each other rank.
//   Where the two differ, other ranks compute the micro-batch once more, and a majority decides. With two ranks each
//   repeats both micro-batches, so a rank with a fault that does not come again disagrees with itself.
//
// In a group of one rank nothing is compared. The host makes digests; from a device whose memory it cannot address it
// first copies what they are made of, in pieces. On a device without memory, in a dry run, there are only the passes
// and gathers.
#ifndef ZEROFLEET_WORKER_ZERO_INTEGRITY_H_
#define ZEROFLEET_WORKER_ZERO_INTEGRITY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/digest.h"
#include "worker/zero/disagreement.h"
#include "worker/zero/engine_parts.h"

namespace zerofleet::zero {

// The name that the gathered digests have as a unit in a schedule.
inline constexpr const char* kDigestsUnit = "digests";

// What a step compares; the same on every rank.
struct StepChecks {
  bool parameters = false;
  bool replay = false;
};

// The digest of one pass: what is added to it, in order.
class PassDigest {
 public:
  explicit PassDigest(const EngineParts& parts);
  // Waits until the stream has written `data`.
  absl::Status Add(const void* data, int64_t bytes);
  DigestBits Bits() const { return digest_.Bits(); }

 private:
  const EngineParts& parts_;
  StreamingDigest digest_;
  std::vector<std::byte> piece_;  // host memory for copies; empty where none are needed
};

// A rank's first replay computes the micro-batch of the rank this many places further on in the group.
inline constexpr int kFirstReplay = 1;

class IntegrityChecker {
 public:
  // `room` is device memory for a digest of every rank, free in the stream's order during calls.
  IntegrityChecker(const EngineParts& parts, void* room);

  // Collective, if there is anything to compare. `resting` has all parameters; the stream has written them. Returns
  // Aborted, with the verdict (DisagreementOf), if ranks disagree.
  absl::Status CheckParameters(int64_t step, device::Tensor resting);

  // The number of the rank `away` places further on in the group.
  int Neighbour(int away) const { return (parts_.communicator.rank() + away) % parts_.communicator.size(); }
  // Computes the first micro-batch of the rank with this number again; collective, as the pass is.
  using Replayer = std::function<absl::StatusOr<DigestBits>(int number)>;
  // Collective. `own` is the digest of this rank's first micro-batch, `replayed` that of Neighbour(kFirstReplay)'s.
  // Returns Aborted, with the verdict, if ranks disagree; only then every rank calls `replay`, which overwrites
  // gradients.
  absl::Status CompareReplays(int64_t step, const DigestBits& own, const DigestBits& replayed, const Replayer& replay);

  bool compares() const { return parts_.communicator.size() > 1; }

 private:
  absl::StatusOr<DigestBits> DigestOfParameters(device::Tensor resting) const;
  // Collective: afterwards digests_ has every rank's `mine`.
  absl::Status Gather(const DigestBits& mine);
  // Collective: `mine` is the digest of the micro-batch of the rank `away` places further on. Adds every rank's to
  // `answers`, which is indexed by the number of the micro-batch's rank.
  using AnswersByBatch = std::vector<std::vector<Answer>>;
  absl::Status GatherAnswers(const DigestBits& mine, int away, AnswersByBatch& answers);

  const EngineParts& parts_;
  const ZeroLayout& layout_;
  std::vector<DigestBits> digests_;  // by number in the group
  DigestBits* const on_device_;      // by number in the group, where communicators need them
};

}  // namespace zerofleet::zero

#endif  // ZEROFLEET_WORKER_ZERO_INTEGRITY_H_
