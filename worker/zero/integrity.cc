// Digests, their gather and the verdict; see integrity.h.
#include "worker/zero/integrity.h"

#include <algorithm>
#include <optional>
#include <span>

#include "base/check.h"
#include "base/status.h"
#include "worker/device/step_control.h"

namespace zerofleet::zero {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;

bool IsDry(const device::Device& device) { return device.kind() == "dry"; }

}  // namespace

IntegrityChecker::IntegrityChecker(const EngineParts& parts, void* room)
    : parts_(parts),
      layout_(parts.layout),
      digests_(parts.communicator.size()),
      on_device_(static_cast<DigestBits*>(room)) {
  static_assert(sizeof(DigestBits) <= sizeof(device::StepScalars));
  ZF_CHECK(parts.ranks.empty() || parts.ranks.size() == digests_.size());
}

PassDigest::PassDigest(const EngineParts& parts)
    : parts_(parts),
      piece_(parts.device.host_addressable() || IsDry(parts.device) ? 0 : static_cast<size_t>(kPieceBytes)) {}

absl::Status PassDigest::Add(const void* data, int64_t bytes) {
  if (IsDry(parts_.device)) return absl::OkStatus();
  std::span<const std::byte> left(static_cast<const std::byte*>(data), static_cast<size_t>(bytes));
  while (!left.empty()) {
    std::span<const std::byte> now = left;
    if (!piece_.empty()) {
      now = std::span(piece_).first(std::min(left.size(), piece_.size()));
      parts_.device.Copy(parts_.stream, piece_.data(), left.data(), static_cast<int64_t>(now.size()));
    }
    ZF_RETURN_IF_ERROR(parts_.stream.Synchronize());
    digest_.Update(now);
    left = left.subspan(now.size());
  }
  return absl::OkStatus();
}

absl::Status IntegrityChecker::Gather(const DigestBits& mine) {
  device::Device& device = parts_.device;
  device.Copy(parts_.stream, on_device_ + parts_.communicator.rank(), &mine, sizeof mine);
  const collective::Communicator::Pending gathered =
      parts_.communicator.AllGatherBytes(nullptr, on_device_, sizeof(DigestBits), kDigestsUnit, parts_.stream.Record());
  ZF_RETURN_IF_ERROR(gathered.Wait());
  if (IsDry(device)) {  // nobody answers
    digests_.assign(digests_.size(), mine);
    return absl::OkStatus();
  }
  device.Copy(parts_.stream, digests_.data(), on_device_, static_cast<int64_t>(digests_.size() * sizeof(DigestBits)));
  return parts_.stream.Synchronize();
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
