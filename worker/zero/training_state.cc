// Initialisation and ranges of the training state; see training_state.h.
#include "worker/zero/training_state.h"

#include <algorithm>

#include "worker/optim/step_rule.h"

namespace zerofleet::zero {

std::vector<memory::MemoryRow> TrainingState::Rows(const ZeroLayout& layout, memory::Space space) {
  std::vector<memory::MemoryRow> rows;
  for (const optim::OptimizerVector& vector : layout.optimizer().vectors) {
    rows.push_back({space, memory::Category::kOptimizer, vector.name,
                    layout.optimizer_elements() * device::DTypeBytes(vector.dtype)});
  }
  return rows;
}

int64_t TrainingState::StoredBytes(const ZeroLayout& layout, int rank) {
  int64_t elements = 0;
  for (const coordinator::PlacedRange& range : layout.partition().StoredRanges(rank)) elements += range.elements();
  return elements * layout.optimizer().StateBytesPerParameter();
}

int64_t TrainingState::MostStoredBytes(const ZeroLayout& layout) {
  int64_t most = 0;
  for (int rank = 0; rank < layout.options().world_size; ++rank) most = std::max(most, StoredBytes(layout, rank));
  return most;
}

TrainingState::TrainingState(const model::ModelSpec& spec, const ZeroLayout& layout, memory::Arena& arena)
    : spec_(spec), layout_(layout) {
  for (const optim::OptimizerVector& vector : layout_.optimizer().vectors) {
    vectors_.push_back({arena.Take(vector.name), vector.dtype});
  }
  for (int u = 0; u < layout_.units(); ++u) {
    ZeroLayout::Piece piece = layout_.Updated(u);
    segments_.push_back(optim::DecaySegments(spec_, piece.flat_begin, piece.flat_end));
  }
}

optim::StateTensors TrainingState::At(int64_t offset) const {
  optim::StateTensors at;
  for (const device::Tensor& vector : vectors_) at.push_back(vector.Offset(offset));
  return at;
}

void TrainingState::Initialize(uint64_t seed, device::Ops& ops, device::Stream& stream) {
  Clear(ops, stream);  // the padding, too
  for (size_t v = 0; v < vectors_.size(); ++v) {
    const device::Tensor& vector = vectors_[v];
    if (layout_.optimizer().vectors[v].initial != optim::OptimizerVector::Initial::kWeights) continue;
    for (int u = 0; u < layout_.units(); ++u) {
      ZeroLayout::Piece piece = layout_.Updated(u);
      FillInitial(piece.flat_begin, piece.flat_end, seed, ops, stream,
                  static_cast<float*>(vector.Offset(piece.state_offset).data));
    }
  }
}

void TrainingState::Clear(device::Ops& ops, device::Stream& stream) const {
  for (const device::Tensor& vector : vectors_) {
    ops.Zero(stream, vector.data, layout_.optimizer_elements() * device::DTypeBytes(vector.dtype));
  }
}

void TrainingState::FillInitial(int64_t flat_begin, int64_t flat_end, uint64_t seed, device::Ops& ops,
                                device::Stream& stream, float* to) const {
  for (size_t t = 0; t < spec_.tensors().size(); ++t) {
    const model::TensorSpec& tensor = spec_.tensors()[t];
    int64_t begin = std::max(tensor.flat_begin, flat_begin), end = std::min(tensor.flat_end, flat_end);
    if (begin >= end) continue;
    float* at = to + (begin - flat_begin);
    if (tensor.init == model::Init::kOnes || tensor.init == model::Init::kZeros) {
      ops.Fill(stream, end - begin, tensor.init == model::Init::kOnes ? 1.0f : 0.0f, at);
      continue;
    }
    const int64_t first = begin - tensor.flat_begin, last = end - tensor.flat_begin;
    if (spec_.part().count > 1) ops.Zero(stream, at, (end - begin) * device::DTypeBytes(device::DType::kF32));
    for (const model::WholeRun& run : RunsOfPart(tensor.whole_shape, tensor.cut, spec_.part(), first, last)) {
      ops.FillNormal(stream, {.count = run.elements,
                              .seed = seed,
                              .stream_id = t,
                              .first = run.whole_begin,
                              .deviation = static_cast<float>(spec_.Deviation(tensor.init)),
                              .to = at + (run.begin - first)});
    }
  }
}

std::vector<coordinator::PlacedRange> TrainingState::RangesToLoad() const {
  std::vector<coordinator::PlacedRange> ranges;
  for (int u = 0; u < layout_.units(); ++u) {
    ZeroLayout::Piece piece = layout_.Updated(u);
    if (piece.elements() > 0) ranges.push_back({piece.flat_begin, piece.flat_end, piece.state_offset});
  }
  return ranges;
}

std::vector<coordinator::PlacedRange> TrainingState::RangesToStore() const {
  std::vector<coordinator::PlacedRange> ranges;
  for (int u = 0; u < layout_.units(); ++u) {
    coordinator::PlacedRange owned = layout_.Owned(u);
    if (owned.elements() == 0) continue;
    owned.offset = layout_.ShardOffset(u, layout_.stage().split_optimizer);
    ranges.push_back(owned);
  }
  return ranges;
}

}  // namespace zerofleet::zero
