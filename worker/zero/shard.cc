// Initialisation and ranges of the training state; see shard.h.
#include "worker/zero/shard.h"

#include <algorithm>

#include "worker/zero/memory_plan.h"

namespace zerofleet {

TrainingState::TrainingState(const ModelSpec& spec, const ZeroLayout& layout, Arena& arena)
    : spec_(spec),
      layout_(layout),
      vectors_{arena.TakeAs<float>(kMasterRow), arena.TakeAs<float>(kExpAvgRow), arena.TakeAs<float>(kExpAvgSqRow)} {
  for (int u = 0; u < layout_.units(); ++u) {
    ZeroLayout::Piece piece = layout_.Updated(u);
    segments_.push_back(DecaySegments(spec_, piece.flat_begin, piece.flat_end));
  }
}

void TrainingState::Initialize(uint64_t seed, Ops& ops, Stream& stream) {
  int64_t bytes = layout_.optimizer_elements() * static_cast<int64_t>(sizeof(float));
  for (float* vector : {vectors_.master, vectors_.exp_avg, vectors_.exp_avg_sq}) ops.Zero(stream, vector, bytes);
  for (int u = 0; u < layout_.units(); ++u) {
    ZeroLayout::Piece piece = layout_.Updated(u);
    FillInitial(piece.flat_begin, piece.flat_end, seed, ops, stream, vectors_.master + piece.state_offset);
  }
}

void TrainingState::FillInitial(int64_t flat_begin, int64_t flat_end, uint64_t seed, Ops& ops, Stream& stream,
                                float* to) const {
  for (size_t t = 0; t < spec_.tensors().size(); ++t) {
    const TensorSpec& tensor = spec_.tensors()[t];
    int64_t begin = std::max(tensor.flat_begin, flat_begin), end = std::min(tensor.flat_end, flat_end);
    if (begin >= end) continue;
    float* at = to + (begin - flat_begin);
    if (tensor.init == Init::kOnes || tensor.init == Init::kZeros) {
      ops.Fill(stream, end - begin, tensor.init == Init::kOnes ? 1.0f : 0.0f, at);
    } else {
      ops.FillNormal(stream, end - begin, seed, t, begin - tensor.flat_begin,
                     static_cast<float>(spec_.Deviation(tensor.init)), at);
    }
  }
}

std::vector<PlacedRange> TrainingState::RangesToLoad() const {
  std::vector<PlacedRange> ranges;
  for (int u = 0; u < layout_.units(); ++u) {
    ZeroLayout::Piece piece = layout_.Updated(u);
    if (piece.elements() > 0) ranges.push_back({piece.flat_begin, piece.flat_end, piece.state_offset});
  }
  return ranges;
}

std::vector<PlacedRange> TrainingState::RangesToStore() const {
  std::vector<PlacedRange> ranges;
  for (int u = 0; u < layout_.units(); ++u) {
    PlacedRange owned = layout_.Owned(u);
    if (owned.elements() == 0) continue;
    owned.offset = layout_.ShardOffset(u, layout_.stage().split_optimizer);
    ranges.push_back(owned);
  }
  return ranges;
}

}  // namespace zerofleet
