// Attention forward and backward; see attend.h.
#include "worker/model/layers/attend.h"

namespace zerofleet::model {

AttendLayer::AttendLayer(Declaration& declaration)
    : heads_(declaration.sizes().heads / declaration.parts()),
      kv_heads_(declaration.sizes().kv_heads / declaration.parts()),
      head_size_(declaration.sizes().head_size),
      behind_input_(declaration.divides_stream() || QueryColumns() > declaration.sizes().hidden),
      output_(declaration.Activation({.columns = QueryColumns()})),
      logsumexp_(declaration.Activation({.columns = heads_, .statistics = true})) {
  const Sizes& sizes = declaration.sizes();
  declaration.Shares({"model.heads", sizes.heads});
  if (sizes.kv_heads != sizes.heads) declaration.Shares({"model.kv_heads", sizes.kv_heads});
  declaration.Attention(sizes.Of(Width::kQueries));
  declaration.Gradient(InputColumns() + (behind_input_ ? QueryColumns() : 0));
}

device::AttentionShape AttendLayer::Shape(int64_t sequences, int64_t time) const {
  return {.batch = sequences, .time = time, .heads = heads_, .head_size = head_size_, .kv_heads = kv_heads_};
}

absl::Status AttendLayer::Forward(const UnitPass& pass) const {
  const Pass& p = pass.pass;
  p.ops.AttentionForward(p.stream, {.shape = Shape(p.batch.sequences, p.batch.time),
                                    .qkv = before()->Output(pass),
                                    .out = Output(pass),
                                    .logsumexp = pass.StatisticsAt(logsumexp_),
                                    .scratch = p.scratch.attention});
  return absl::OkStatus();
}

absl::StatusOr<device::Tensor> AttendLayer::Backward(const UnitPass& pass, device::Tensor dy) const {
  const Pass& p = pass.pass;
  const device::Tensor dx = before()->TakesGradient(pass).place;
  p.ops.AttentionBackward(p.stream, {.shape = Shape(p.batch.sequences, p.batch.time),
                                     .qkv = before()->Output(pass),
                                     .out = Output(pass),
                                     .logsumexp = pass.StatisticsAt(logsumexp_),
                                     .dout = dy,
                                     .dqkv = dx,
                                     .scratch = p.scratch.attention});
  return dx;
}

Layer::GradientPlace AttendLayer::TakesGradient(const UnitPass& pass) const {
  const Pass& p = pass.pass;
  if (!behind_input_) return {p.scratch.narrow, {}};
  return {before()->TakesGradient(pass).place.Offset(p.m() * InputColumns()), {}};
}

}  // namespace zerofleet::model
