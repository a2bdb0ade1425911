// There and back; see rotate.h.
#include "worker/model/layers/rotate.h"

#include "worker/device/llama_ops.h"

namespace zerofleet::model {

RotateLayer::RotateLayer(Declaration& declaration)
    : heads_(declaration.sizes().heads / declaration.parts()),
      kv_heads_(declaration.sizes().kv_heads / declaration.parts()),
      head_size_(declaration.sizes().head_size),
      frequencies_(declaration.sizes().frequencies) {
  declaration.Pointwise(3 * 2 * (heads_ + kv_heads_) * head_size_ * declaration.parts());
}

void RotateLayer::Turn(const UnitPass& pass, device::Tensor x, bool back) const {
  const Pass& p = pass.pass;
  p.ops.llama()->Rotate(p.stream, {.batch = p.batch.sequences,
                                   .time = p.batch.time,
                                   .heads = heads_ + kv_heads_,
                                   .head_size = head_size_,
                                   .columns = (heads_ + 2 * kv_heads_) * head_size_,
                                   .frequencies = frequencies_,
                                   .back = back,
                                   .x = x});
}

absl::Status RotateLayer::Forward(const UnitPass& pass) const {
  Turn(pass, Output(pass), /*back=*/false);
  return absl::OkStatus();
}

absl::StatusOr<device::Tensor> RotateLayer::Backward(const UnitPass& pass, device::Tensor dy) const {
  Turn(pass, dy, /*back=*/true);
  return dy;
}

}  // namespace zerofleet::model
