// Attention forward and backward; see attend.h.
#include "worker/model/layers/attend.h"

#include "worker/device/cache_ops.h"

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
  if (p.batch.cache != nullptr) ForwardCached(pass, *p.batch.cache);
  if (p.batch.past() > 0) return absl::OkStatus();
  p.ops.AttentionForward(p.stream, {.shape = Shape(p.batch.sequences, p.batch.time),
                                    .qkv = before()->Output(pass),
                                    .out = Output(pass),
                                    .logsumexp = pass.StatisticsAt(logsumexp_),
                                    .scratch = p.scratch.attention,
                                    .starts = p.batch.starts});
  return absl::OkStatus();
}

// Tokens that begin a sequence attend to themselves alone, for which there is a faster op (Forward).
void AttendLayer::ForwardCached(const UnitPass& pass, const KeyValueCache& cache) const {
  const Pass& p = pass.pass;
  const device::Tensor qkv = before()->Output(pass), memory{cache.memory, qkv.dtype};
  const int64_t elements = CachedElements(cache.capacity);
  const device::Tensor keys = memory.Offset(pass.layer * elements);
  p.ops.cache().CachedAttention(p.stream, {.shape = Shape(p.batch.sequences, p.batch.time),
                                           .past = cache.past,
                                           .capacity = cache.capacity,
                                           .qkv = qkv,
                                           .keys = keys,
                                           .values = keys.Offset(elements / 2),
                                           .out = cache.past == 0 ? device::Tensor{} : Output(pass),
                                           .scratch = p.scratch.attention});
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
                                     .scratch = p.scratch.attention,
                                     .starts = p.batch.starts});
  return dx;
}

Layer::GradientPlace AttendLayer::TakesGradient(const UnitPass& pass) const {
  const Pass& p = pass.pass;
  if (!behind_input_) return {p.scratch.narrow, {}};
  return {before()->TakesGradient(pass).place.Offset(p.m() * InputColumns()), {}};
}

}  // namespace zerofleet::model
