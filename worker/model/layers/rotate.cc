// Rotations forward and backward, and norms of heads; see rotate.h.
#include "worker/model/layers/rotate.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/device/llama_ops.h"
#include "worker/model/layers/norm.h"

namespace zerofleet::model {
namespace {

// Declares the weights of the two norms, which are neighbours in the unit.
int64_t DeclareHeadNorms(const Rotate& row, Declaration& declaration) {
  const std::vector<int64_t> shape = {declaration.sizes().head_size};
  const int64_t at = declaration.Tensor({absl::StrCat(row.queries_norm, ".weight"), shape, false, Init::kOnes});
  declaration.Tensor({absl::StrCat(row.keys_norm, ".weight"), shape, false, Init::kOnes});
  return at;
}

std::optional<HeadNorm> ConfiguredHeadNorm(const Rotate& row, float epsilon, Declaration& declaration) {
  if (!declaration.sizes().qk_norm) return std::nullopt;
  return HeadNorm(row, epsilon, declaration);
}

}  // namespace

HeadNorm::HeadNorm(const Rotate& row, float epsilon, Declaration& declaration)
    : heads_(declaration.sizes().heads / declaration.parts()),
      kv_heads_(declaration.sizes().kv_heads / declaration.parts()),
      head_size_(declaration.sizes().head_size),
      epsilon_(epsilon),
      summed_(declaration.parts() > 1),
      weight_(DeclareHeadNorms(row, declaration)),
      sums_at_(declaration.NormSums(elements(), summed_)),
      output_(declaration.Activation({.columns = (heads_ + 2 * kv_heads_) * head_size_, .cheap = true})),
      rstd_(declaration.Activation({.columns = heads_ + kv_heads_, .statistics = true, .cheap = true})) {
  declaration.Pointwise(3 * 2 * (heads_ + 2 * kv_heads_) * head_size_ * declaration.parts());
}

void HeadNorm::Forward(const UnitPass& pass, device::Tensor x) const {
  const Pass& p = pass.pass;
  p.ops.llama().HeadNormForward(p.stream, {.m = p.m(),
                                           .heads = heads_,
                                           .kv_heads = kv_heads_,
                                           .head_size = head_size_,
                                           .epsilon = epsilon_,
                                           .x = x,
                                           .gammas = pass.w.Offset(weight_),
                                           .y = Output(pass),
                                           .rstd = pass.StatisticsAt(rstd_)});
}

absl::Status HeadNorm::Backward(const UnitPass& pass, device::Tensor x, device::Tensor dy) const {
  const Pass& p = pass.pass;
  float* sums = nullptr;  // null if the norms are frozen
  if (pass.dw == nullptr) {
  } else if (summed_) {
    sums = p.scratch.norm_gradients + sums_at_;
    p.ops.Zero(p.stream, sums, elements() * static_cast<int64_t>(sizeof(float)));
  } else {
    sums = pass.dw->SumsAt(weight_, elements());
  }
  p.ops.llama().HeadNormBackward(p.stream, {.m = p.m(),
                                            .heads = heads_,
                                            .kv_heads = kv_heads_,
                                            .head_size = head_size_,
                                            .x = x,
                                            .gammas = pass.w.Offset(weight_),
                                            .rstd = pass.StatisticsAt(rstd_),
                                            .dy = dy,
                                            .dgammas = sums});
  return sums == nullptr || summed_ ? absl::OkStatus() : pass.dw->Deliver(weight_, elements(), sums);
}

absl::Status HeadNorm::AddGradient(const UnitPass& pass) const {
  if (!summed_) return absl::OkStatus();
  return AddSummedGradient(pass, weight_, elements(), pass.pass.scratch.norm_gradients + sums_at_);
}

RotateLayer::RotateLayer(const Rotate& row, float epsilon, Declaration& declaration)
    : heads_(declaration.sizes().heads / declaration.parts()),
      kv_heads_(declaration.sizes().kv_heads / declaration.parts()),
      head_size_(declaration.sizes().head_size),
      frequencies_(declaration.sizes().frequencies),
      norm_(ConfiguredHeadNorm(row, epsilon, declaration)) {
  declaration.Pointwise(3 * 2 * (heads_ + kv_heads_) * head_size_ * declaration.parts());
}

void RotateLayer::Turn(const UnitPass& pass, device::Tensor x, bool back) const {
  const Pass& p = pass.pass;
  p.ops.llama().Rotate(p.stream, {.batch = p.batch.sequences,
                                  .time = p.batch.time,
                                  .heads = heads_ + kv_heads_,
                                  .head_size = head_size_,
                                  .columns = (heads_ + 2 * kv_heads_) * head_size_,
                                  .frequencies = frequencies_,
                                  .past = p.batch.past(),
                                  .back = back,
                                  .x = x,
                                  .starts = p.batch.starts});
}

absl::Status RotateLayer::Forward(const UnitPass& pass) const {
  if (norm_) norm_->Forward(pass, before()->Output(pass));
  Turn(pass, Output(pass), /*back=*/false);
  return absl::OkStatus();
}

absl::StatusOr<device::Tensor> RotateLayer::Backward(const UnitPass& pass, device::Tensor dy) const {
  Turn(pass, dy, /*back=*/true);
  if (norm_) ZF_RETURN_IF_ERROR(norm_->Backward(pass, before()->Output(pass), dy));
  return dy;
}

absl::Status RotateLayer::AddNormGradient(const UnitPass& pass) const {
  return norm_ ? norm_->AddGradient(pass) : absl::OkStatus();
}

}  // namespace zerofleet::model
