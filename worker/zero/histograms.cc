// See histograms.h.
#include "worker/zero/histograms.h"

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "base/check.h"
#include "base/status.h"

namespace zerofleet::zero {
namespace {

constexpr int64_t kReadTogether = 65'536;  // elements

float ValueAt(const device::Tensor& values, int64_t i) {
  switch (values.dtype) {
    case device::DType::kF32: return static_cast<const float*>(values.data)[i];
    case device::DType::kBF16: return device::ToFloat(static_cast<const device::BF16*>(values.data)[i]);
    case device::DType::kF16: return device::ToFloat(static_cast<const device::F16*>(values.data)[i]);
  }
  return 0;
}

}  // namespace

Histograms::Histograms(const EngineParts& parts) : parts_(parts) {
  ZF_CHECK(parts.device.host_addressable());
  for (const model::TensorSpec& tensor : parts.spec.tensors()) spreads_.emplace_back().tensor = tensor.name;
}

template <typename Visit>
void Histograms::ForEachTensor(int64_t flat_begin, int64_t flat_end, const Visit& visit) const {
  const auto& tensors = parts_.spec.tensors();
  for (size_t t = 0; t < tensors.size(); ++t) {
    const int64_t begin = std::max(tensors[t].flat_begin, flat_begin), end = std::min(tensors[t].flat_end, flat_end);
    if (begin >= end || tensors[t].frozen) continue;
    if (parts_.layout.part().count == 1) {
      visit(t, begin, end - begin);
      continue;
    }
    // A part's vocabulary may have rows that the whole model's has not.
    for (const coordinator::PlacedRange& of_whole : parts_.spec.ToWhole({{begin, end, 0}})) {
      visit(t, begin + of_whole.offset, of_whole.elements());
    }
  }
}

void Histograms::AddGradient(int unit, device::Tensor shard, double scale) {
  const coordinator::PlacedRange owned = parts_.layout.Owned(unit);
  for (const ZeroLayout::ShardRange& range : parts_.layout.Counted(unit)) {
    const int64_t begin = owned.flat_begin + range.begin;
    ForEachTensor(begin, begin + range.elements, [&](size_t tensor, int64_t first, int64_t count) {
      const device::Tensor values = shard.Offset(first - owned.flat_begin);
      for (int64_t i = 0; i < count; ++i) {
        spreads_[tensor].gradients.Add(static_cast<double>(ValueAt(values, i)) / scale);
      }
    });
  }
}

absl::Status Histograms::AddWeights(const TrainingState& state) {
  std::vector<float> values(kReadTogether);
  absl::Status status;
  for (int u = 0; u < parts_.layout.units() && status.ok(); ++u) {
    if (parts_.layout.frozen(u)) continue;
    const coordinator::PlacedRange owned = parts_.layout.Owned(u);
    const ZeroLayout::UpdatedRange piece = parts_.layout.Updated(u);
    for (const ZeroLayout::ShardRange& range : parts_.layout.Counted(u)) {
      const int64_t begin = owned.flat_begin + range.begin;
      ForEachTensor(begin, begin + range.elements, [&](size_t tensor, int64_t first, int64_t count) {
        for (int64_t done = 0; done < count && status.ok(); done += kReadTogether) {
          const int64_t now = std::min(kReadTogether, count - done);
          status = state.CopyOut(parts_.device, parts_.stream, /*vector=*/0,
                                 piece.state_offset + (first + done - piece.flat_begin), now, values.data());
          if (status.ok()) status = parts_.stream.Synchronize();
          for (int64_t i = 0; i < now && status.ok(); ++i) spreads_[tensor].weights.Add(static_cast<double>(values[i]));
        }
      });
    }
  }
  return status;
}

absl::Status Histograms::SumOver(collective::Communicator* group) {
  if (group == nullptr || group->size() == 1) return absl::OkStatus();
  static_assert(std::is_trivially_copyable_v<Spread>);
  std::vector<Spread> all(static_cast<size_t>(group->size()));
  for (size_t t = 0; t < spreads_.size(); ++t) {
    if (parts_.spec.tensors()[t].frozen) continue;
    for (Spread* const mine : {&spreads_[t].weights, &spreads_[t].gradients}) {
      ZF_RETURN_IF_ERROR(
          group->AllGatherBytes(mine, all.data(), static_cast<int64_t>(sizeof(Spread)), "histograms").Wait());
      *mine = {};
      for (const Spread& one : all) mine->Add(one);
    }
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
  return trained;
}

}  // namespace zerofleet::zero
