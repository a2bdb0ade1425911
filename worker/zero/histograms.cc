// See histograms.h.
#include "worker/zero/histograms.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/status.h"

namespace zerofleet::zero {
namespace {

constexpr const char* kValuesRow = "histogram values";
constexpr const char* kSpreadsRow = "spreads";
constexpr int64_t kValuesBytes = 262'144;
constexpr int64_t kElementsAtOnce = kValuesBytes / static_cast<int64_t>(sizeof(float));
constexpr int kSpreadsAtOnce = kValuesBytes / sizeof(Spread);

static_assert(std::is_trivially_copyable_v<Spread>);

float ValueAt(const void* values, device::DType dtype, int64_t i) {
  switch (dtype) {
    case device::DType::kF32: return static_cast<const float*>(values)[i];
    case device::DType::kBF16: return device::ToFloat(static_cast<const device::BF16*>(values)[i]);
    case device::DType::kF16: return device::ToFloat(static_cast<const device::F16*>(values)[i]);
  }
  return 0;
}

}  // namespace

std::vector<memory::MemoryRow> Histograms::Rows(const ZeroLayout& layout) {
  if (!layout.options().histograms) return {};
  const int64_t ranks = std::max(layout.options().world_size, layout.part().count);
  return {
      {memory::Space::kHost, memory::Category::kBuffers, kValuesRow, kValuesBytes},
      {memory::Space::kDevice, memory::Category::kBuffers, kSpreadsRow, ranks * static_cast<int64_t>(sizeof(Spread))}};
}

Histograms::Histograms(const EngineParts& parts)
    : parts_(parts),
      staging_(parts.host_arena.Take(kValuesRow)),
      gathered_(parts.device_arena.TakeAs<Spread>(kSpreadsRow)) {}

void Histograms::Begin() {
  spreads_.clear();
  for (const model::TensorSpec& tensor : parts_.spec.tensors()) spreads_.emplace_back().tensor = tensor.name;
}

template <typename Visit>
absl::Status Histograms::ForEachPiece(int unit, const Visit& visit) const {
  const auto& tensors = parts_.spec.tensors();
  const auto in_pieces = [&visit](size_t tensor, int64_t begin, int64_t end) -> absl::Status {
    for (int64_t first = begin; first < end; first += kElementsAtOnce) {
      ZF_RETURN_IF_ERROR(visit(tensor, first, std::min(kElementsAtOnce, end - first)));
    }
    return absl::OkStatus();
  };
  for (const ZeroLayout::ShardRange& range : parts_.layout.Counted(unit)) {
    const int64_t flat_begin = parts_.layout.Owned(unit).flat_begin + range.begin;
    for (size_t t = 0; t < tensors.size(); ++t) {
      const int64_t begin = std::max(tensors[t].flat_begin, flat_begin),
                    end = std::min(tensors[t].flat_end, flat_begin + range.elements);
      if (begin >= end || tensors[t].frozen) continue;
      if (parts_.layout.part().count == 1) {
        ZF_RETURN_IF_ERROR(in_pieces(t, begin, end));
        continue;
      }
      // A part's vocabulary may have rows that the whole model's has not.
      for (const coordinator::PlacedRange& of_whole : parts_.spec.ToWhole({{begin, end, 0}})) {
        const int64_t first = begin + of_whole.offset;
        ZF_RETURN_IF_ERROR(in_pieces(t, first, first + of_whole.elements()));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Histograms::Fetch(const void* from, int64_t bytes) {
  parts_.device.Copy(parts_.stream, staging_, from, bytes);
  return parts_.stream.Synchronize();
}

absl::Status Histograms::AddGradient(int unit, device::Tensor shard, const double* scale) {
  ZF_RETURN_IF_ERROR(Fetch(scale, sizeof *scale));
  const double divisor = *reinterpret_cast<const double*>(staging_);
  const int64_t owned_begin = parts_.layout.Owned(unit).flat_begin;
  return ForEachPiece(unit, [&](size_t tensor, int64_t first, int64_t count) -> absl::Status {
    ZF_RETURN_IF_ERROR(Fetch(shard.Offset(first - owned_begin).data, count * device::DTypeBytes(shard.dtype)));
    for (int64_t i = 0; i < count; ++i) {
      spreads_[tensor].gradients.Add(static_cast<double>(ValueAt(staging_, shard.dtype, i)) / divisor);
    }
    return absl::OkStatus();
  });
}

absl::Status Histograms::AddWeights(const TrainingState& state) {
  auto* const values = reinterpret_cast<float*>(staging_);
  for (int u = 0; u < parts_.layout.units(); ++u) {
    if (parts_.layout.frozen(u)) continue;
    const ZeroLayout::UpdatedRange piece = parts_.layout.Updated(u);
    ZF_RETURN_IF_ERROR(ForEachPiece(u, [&](size_t tensor, int64_t first, int64_t count) -> absl::Status {
      const int64_t place = piece.state_offset + (first - piece.flat_begin);
      ZF_RETURN_IF_ERROR(state.CopyOut(parts_.device, parts_.stream, /*vector=*/0, place, count, values));
      ZF_RETURN_IF_ERROR(parts_.stream.Synchronize());
      for (int64_t i = 0; i < count; ++i) spreads_[tensor].weights.Add(static_cast<double>(values[i]));
      return absl::OkStatus();
    }));
  }
  return absl::OkStatus();
}

absl::Status Histograms::AddUp(collective::Communicator& group, Spread& mine) {
  auto* const staged = reinterpret_cast<Spread*>(staging_);
  *staged = mine;
  parts_.device.Copy(parts_.stream, gathered_ + group.rank(), staged, sizeof mine);
  ZF_RETURN_IF_ERROR(
      group.AllGatherBytes(nullptr, gathered_, sizeof mine, "histograms", parts_.stream.Record()).Wait());
  mine = {};
  for (int first = 0; first < group.size(); first += kSpreadsAtOnce) {
    const int count = std::min(kSpreadsAtOnce, group.size() - first);
    ZF_RETURN_IF_ERROR(Fetch(gathered_ + first, count * static_cast<int64_t>(sizeof mine)));
    for (int i = 0; i < count; ++i) mine.Add(staged[i]);
  }
  return absl::OkStatus();
}

absl::Status Histograms::SumOver(collective::Communicator* group) {
  if (group == nullptr || group->size() == 1) return absl::OkStatus();
  for (size_t t = 0; t < spreads_.size(); ++t) {
    if (parts_.spec.tensors()[t].frozen) continue;
    ZF_RETURN_IF_ERROR(AddUp(*group, spreads_[t].weights));
    ZF_RETURN_IF_ERROR(AddUp(*group, spreads_[t].gradients));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TensorSpreads>> Histograms::Sum() {
  ZF_RETURN_IF_ERROR(SumOver(&parts_.communicator));
  ZF_RETURN_IF_ERROR(SumOver(parts_.tensor));
  std::vector<TensorSpreads> trained;
  for (size_t t = 0; t < spreads_.size(); ++t) {
    if (!parts_.spec.tensors()[t].frozen) trained.push_back(std::move(spreads_[t]));
  }
  spreads_.clear();
  return trained;
}

}  // namespace zerofleet::zero
