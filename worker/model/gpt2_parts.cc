// What GPT-2 does differently where it is shared by a tensor group; see gpt2.h.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "worker/model/gpt2.h"

namespace zerofleet::model {
namespace {

constexpr char kEmbeddingName[] = "embedding";

}  // namespace

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

device::Tensor Gpt2::StreamRows(device::Tensor all, int64_t m) const {
  return sequence_ ? all.Offset(part_.index * StreamTokens(m) * config_.hidden()) : all;
}

absl::Status Gpt2::SumOverParts(device::Tensor all, device::Tensor sum, int64_t m, const std::string& unit,
                                device::Stream& stream) {
  if (!in_parts()) return absl::OkStatus();
  if (sequence_) return group_->ReduceScatter(stream, all, sum, m * config_.hidden(), unit);
  return group_->AllReduce(stream, all, m * config_.hidden(), unit);
}

absl::Status Gpt2::GatherTokens(device::Tensor all, int64_t m, const std::string& unit, device::Stream& stream) {
  if (!sequence_) return absl::OkStatus();
  return group_->AllGather(stream, all.data, StreamTokens(m) * config_.hidden() * device::DTypeBytes(dtype_), unit);
}

// A rank adds the residual of the tokens that it has, and coordinate 0 the bias of all.
absl::Status Gpt2::Project(device::LinearForwardArguments product, const std::string& unit, device::Stream& stream) {
  const int64_t m = product.m, mine = StreamTokens(m), first = sequence_ ? part_.index * mine : 0;
  const device::Tensor x = product.x, residual = product.residual, sum = product.y;
  const device::Tensor all = sequence_ ? ScratchMemory().narrow : sum;
  product.bias = Once(product.bias);
  const auto project = [&](int64_t begin, int64_t end, device::Tensor added) {
    if (begin == end) return;
    product.m = end - begin;
    product.x = x.Offset(begin * product.k);
    product.y = all.Offset(begin * product.n);
    product.residual = added;
    ops_.LinearForward(stream, product);
  };
  project(0, first, {});
  project(first, first + mine, sequence_ ? residual : Once(residual));
  project(first + mine, m, {});
  return SumOverParts(all, sum, m, unit, stream);
}

absl::Status Gpt2::Norm(device::LayerNormForwardArguments norm, const std::string& unit, device::Stream& stream) {
  const int64_t m = norm.m;
  const device::Tensor all = norm.y;
  norm.m = StreamTokens(m);
  norm.y = StreamRows(all, m);
  ops_.LayerNormForward(stream, norm);
  return GatherTokens(all, m, unit, stream);
}

absl::Status Gpt2::NormBackward(const UnitGradient& dw, int64_t weight, device::LayerNormBackwardArguments norm,
                                int place, const std::string& unit, device::Stream& stream) {
  const int64_t m = norm.m;
  const device::Tensor all = norm.dy;
  norm.m = StreamTokens(m);
  norm.dy = StreamRows(all, m);
  ZF_RETURN_IF_ERROR(SumOverParts(all, norm.dy, m, unit, stream));
  if (sequence_) {
    norm.dgamma = ScratchMemory().norm_gradients + place * 2 * norm.c;
    ops_.Zero(stream, norm.dgamma, 2 * norm.c * static_cast<int64_t>(sizeof(float)));
  } else {
    norm.dgamma = SumsAt(dw, weight, 2 * norm.c, stream);
  }
  norm.dbeta = norm.dgamma + norm.c;
  ops_.LayerNormBackward(stream, norm);
  return sequence_ ? absl::OkStatus() : DeliverBand(dw, weight, 2 * norm.c, norm.dgamma);
}

absl::Status Gpt2::SumNormGradients(const UnitGradient& dw, std::initializer_list<int64_t> norms,
                                    const std::string& unit, device::Stream& stream) {
  if (!sequence_) return absl::OkStatus();
  const int64_t elements = 2 * config_.hidden();
  device::Tensor sums{ScratchMemory().norm_gradients, device::DType::kF32};
  ZF_RETURN_IF_ERROR(group_->AllReduce(stream, sums, static_cast<int64_t>(norms.size()) * elements, unit));
  for (const int64_t weight : norms) {
    float* const gradient = SumsAt(dw, weight, elements, stream);
    ops_.Accumulate(stream, elements, sums, gradient);
    ZF_RETURN_IF_ERROR(DeliverBand(dw, weight, elements, gradient));
    sums = sums.Offset(elements);
  }
  return absl::OkStatus();
}

absl::StatusOr<device::Tensor> Gpt2::WholeGradient(int64_t m, const std::string& unit, device::Stream& stream) {
  if (!sequence_) return FinalInput();
  const device::Tensor all = ScratchMemory().narrow;
  ops_.Convert(stream, StreamTokens(m) * config_.hidden(), FinalInput(), StreamRows(all, m));
  ZF_RETURN_IF_ERROR(GatherTokens(all, m, unit, stream));
  return all;
}

absl::Status Gpt2::EmbeddingForward(const device::EmbeddingForwardArguments& arguments, device::Stream& stream) {
  if (!in_parts()) {
    ops_.EmbeddingForward(stream, arguments);
    return absl::OkStatus();
  }
  device::EmbeddingForwardArguments mine = arguments;
  mine.wpe = Once(mine.wpe);
  if (sequence_) mine.x = ScratchMemory().narrow;
  ops_.vocabulary().PartEmbeddingForward(stream, vocabulary_part(), mine);
  return SumOverParts(mine.x, arguments.x, mine.batch * mine.time, kEmbeddingName, stream);
}

absl::Status Gpt2::EmbeddingBackward(device::EmbeddingBackwardArguments arguments, device::Stream& stream) {
  if (!in_parts()) {
    ops_.EmbeddingBackward(stream, arguments);
    return absl::OkStatus();
  }
  ZF_ASSIGN_OR_RETURN(arguments.dx, WholeGradient(arguments.batch * arguments.time, kEmbeddingName, stream));
  ops_.vocabulary().PartEmbeddingBackward(stream, vocabulary_part(), arguments);
  return absl::OkStatus();
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
    ops_.vocabulary().PartLogits(stream, {.m = rows,
                                          .c = whole.c,
                                          .part = vocabulary,
                                          .x = x,
                                          .w = whole.w,
                                          .targets = whole.targets + first,
                                          .logits = static_cast<float*>(scratch.logits),
                                          .softmax = scratch.softmax + part_.index * rows});
    ZF_RETURN_IF_ERROR(
        group_->AllGather(stream, scratch.softmax, rows * static_cast<int64_t>(sizeof(device::SoftmaxPart)), "head"));
    ops_.vocabulary().PartCrossEntropy(stream, {.m = rows,
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
                                                .dw = whole.dw,
                                                .kept = whole.kept ? whole.kept + first : nullptr});
  }
  return absl::OkStatus();
}

}  // namespace zerofleet::model
