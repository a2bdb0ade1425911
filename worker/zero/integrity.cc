// Digests, their gather and the verdict; see integrity.h.
#include "worker/zero/integrity.h"

#include <optional>
#include <span>

#include "base/check.h"
#include "base/status.h"

namespace zerofleet::zero {

IntegrityChecker::IntegrityChecker(const EngineParts& parts)
    : parts_(parts), layout_(parts.layout), digests_(parts.communicator.size()) {
  ZF_CHECK(parts.ranks.empty() || parts.ranks.size() == digests_.size());
}

absl::Status PassDigest::Add(const void* data, int64_t bytes) {
  if (!parts_.device.host_addressable()) return absl::OkStatus();
  ZF_RETURN_IF_ERROR(parts_.stream.Synchronize());
  digest_.Update(std::as_bytes(std::span(static_cast<const char*>(data), static_cast<size_t>(bytes))));
  return absl::OkStatus();
}

absl::Status IntegrityChecker::Gather(const DigestBits& mine) {
  digests_[parts_.communicator.rank()] = mine;
  ZF_RETURN_IF_ERROR(
      parts_.communicator.AllGatherBytes(nullptr, digests_.data(), sizeof(DigestBits), kDigestsUnit).Wait());
  // In a dry run nobody answers.
  if (!parts_.device.host_addressable()) digests_.assign(digests_.size(), mine);
  return absl::OkStatus();
}

absl::Status IntegrityChecker::CheckParameters(int64_t step, device::Tensor resting) {
  if (layout_.stage().split_parameters || !compares()) return absl::OkStatus();
  ZF_ASSIGN_OR_RETURN(const DigestBits mine, DigestOfParameters(resting));
  ZF_RETURN_IF_ERROR(Gather(mine));
  std::vector<Answer> answers;
  for (size_t number = 0; number < digests_.size(); ++number)
    answers.push_back({parts_.RankOf(static_cast<int>(number)), digests_[number]});
  const std::optional<v1::Disagreement> disagreement = Judge(answers);
  return disagreement ? DisagreementError(*disagreement, step, "the parameters") : absl::OkStatus();
}

// Leaves out the padding, which no op reads.
absl::StatusOr<DigestBits> IntegrityChecker::DigestOfParameters(device::Tensor resting) const {
  PassDigest digest(parts_);
  for (int unit = 0; unit < layout_.units(); ++unit) {
    const coordinator::PlacedRange range = layout_.RestingParameters(unit);
    const device::Tensor values = resting.Offset(range.offset);
    ZF_RETURN_IF_ERROR(digest.Add(values.data, range.elements() * device::DTypeBytes(values.dtype)));
  }
  return digest.Bits();
}

absl::Status IntegrityChecker::GatherAnswers(const DigestBits& mine, int away, AnswersByBatch& answers) {
  ZF_RETURN_IF_ERROR(Gather(mine));
  const int size = parts_.communicator.size();
  for (int number = 0; number < size; ++number) {
    answers[(number + away) % size].push_back({parts_.RankOf(static_cast<int>(number)), digests_[number]});
  }
  return absl::OkStatus();
}

absl::Status IntegrityChecker::CompareReplays(int64_t step, const DigestBits& own, const DigestBits& replayed,
                                              const Replayer& replay) {
  AnswersByBatch answers(parts_.communicator.size());
  ZF_RETURN_IF_ERROR(GatherAnswers(own, 0, answers));
  ZF_RETURN_IF_ERROR(GatherAnswers(replayed, kFirstReplay, answers));
  std::vector<int> doubtful;  // every rank has the same digests, so all come to the same list
  for (int number = 0; number < parts_.communicator.size(); ++number) {
    if (Judge(answers[number])) doubtful.push_back(number);
  }
  if (doubtful.empty()) return absl::OkStatus();
  const std::vector<int> further =
      parts_.communicator.size() > 2 ? std::vector<int>{2} : std::vector<int>{0, kFirstReplay};
  for (int away : further) {
    ZF_ASSIGN_OR_RETURN(const DigestBits again, replay(Neighbour(away)));
    ZF_RETURN_IF_ERROR(GatherAnswers(again, away, answers));
  }
  std::vector<v1::Disagreement> verdicts;
  for (int number : doubtful) verdicts.push_back(*Judge(answers[number]));
  return DisagreementError(JoinVerdicts(verdicts), step, "the gradients of a micro-batch");
}

}  // namespace zerofleet::zero
