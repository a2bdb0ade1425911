// What GPT-2 does differently where it is shared by a tensor group; see gpt2.h.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "worker/model/gpt2.h"

namespace zerofleet::model {

void Gpt2::SetTensorGroup(TensorGroup* group) {
  group_ = group;
  kept_inputs_.ForgetLink();
  ZF_CHECK((group == nullptr ? 1 : group->size()) == part_.count);
  part_.index = group == nullptr ? 0 : group->rank();
}

device::VocabularyPart Gpt2::vocabulary_part() const {
  const SectionRows rows = RowsOfPart(config_.vocab(), part_);
  return {rows.first, rows.real};
}

absl::Status Gpt2::SumOverParts(device::Tensor data, int64_t m, const std::string& unit, device::Stream& stream) {
  return in_parts() ? group_->AllReduce(stream, data, m * config_.hidden(), unit) : absl::OkStatus();
}

absl::Status Gpt2::EmbeddingForward(const device::EmbeddingForwardArguments& arguments, device::Stream& stream) {
  if (!in_parts()) {
    ops_.EmbeddingForward(stream, arguments);
    return absl::OkStatus();
  }
  device::EmbeddingForwardArguments mine = arguments;
  mine.wpe = Once(mine.wpe);
  ops_.vocabulary()->PartEmbeddingForward(stream, vocabulary_part(), mine);
  return SumOverParts(mine.x, mine.batch * mine.time, "embedding", stream);
}

void Gpt2::EmbeddingBackward(const device::EmbeddingBackwardArguments& arguments, device::Stream& stream) {
  if (!in_parts()) return ops_.EmbeddingBackward(stream, arguments);
  ops_.vocabulary()->PartEmbeddingBackward(stream, vocabulary_part(), arguments);
}

absl::Status Gpt2::CrossEntropy(const device::CrossEntropyArguments& arguments, device::Stream& stream) {
  if (in_parts()) return PartCrossEntropy(arguments, stream);
  ops_.CrossEntropy(stream, arguments);
  return absl::OkStatus();
}

// The logits of some tokens at a time: their softmax is exchanged before the next ones take their place.
absl::Status Gpt2::PartCrossEntropy(const device::CrossEntropyArguments& whole, device::Stream& stream) {
  const Scratch scratch = ScratchMemory();
  const device::VocabularyPart vocabulary = vocabulary_part();
  const int64_t most = device::PartLogitsRows(whole.m, RowsOfPart(config_.vocab(), part_).all);
  ops_.Zero(stream, whole.loss_sum, sizeof *whole.loss_sum);
  for (int64_t first = 0; first < whole.m; first += most) {
    const int64_t rows = std::min(most, whole.m - first);
    const device::Tensor x = whole.x.Offset(first * whole.c);
    ops_.vocabulary()->PartLogits(stream, {.m = rows,
                                           .c = whole.c,
                                           .part = vocabulary,
                                           .x = x,
                                           .w = whole.w,
                                           .targets = whole.targets + first,
                                           .logits = static_cast<float*>(scratch.logits),
                                           .softmax = scratch.softmax + part_.index * rows});
    ZF_RETURN_IF_ERROR(
        group_->AllGather(stream, scratch.softmax, rows * static_cast<int64_t>(sizeof(device::SoftmaxPart)), "head"));
    ops_.vocabulary()->PartCrossEntropy(stream, {.m = rows,
                                                 .c = whole.c,
                                                 .part = vocabulary,
                                                 .index = part_.index,
                                                 .parts = part_.count,
                                                 .softmax = scratch.softmax,
                                                 .x = x,
                                                 .w = whole.w,
                                                 .targets = whole.targets + first,
                                                 .gradient_scale = whole.gradient_scale,
                                                 .loss_sum = whole.loss_sum,
                                                 .logits = static_cast<float*>(scratch.logits),
                                                 .scratch = scratch.logits,
                                                 .dx = whole.dx ? whole.dx.Offset(first * whole.c) : device::Tensor{},
                                                 .dw = whole.dw});
  }
  return whole.dx ? SumOverParts(whole.dx, whole.m, "head", stream) : absl::OkStatus();
}

}  // namespace zerofleet::model
