// Loading and adding; see merged_adapters.h.
#include "worker/checkpoint/merged_adapters.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/checkpoint/shard_reader.h"

namespace zerofleet::checkpoint {

bool IsAdapter(std::string_view tensor_name) {
  return tensor_name.ends_with(kEndOfA) || tensor_name.ends_with(kEndOfB);
}

absl::StatusOr<MergedAdapters> MergedAdapters::Load(const std::string& step_dir, const v1::CheckpointManifest& manifest,
                                                    WeightsOf which) {
  MergedAdapters merged;
  const v1::LoraConfig& lora = manifest.config().model().lora();
  if (lora.rank() == 0) return merged;
  merged.rank_ = lora.rank();
  merged.scale_ = static_cast<float>(lora.alpha() / lora.rank());
  const auto first = std::find_if(manifest.tensors().begin(), manifest.tensors().end(),
                                  [](const v1::TensorEntry& entry) { return IsAdapter(entry.name()); });
  if (first == manifest.tensors().end()) return merged;
  const int64_t begin = first->flat_begin(), end = manifest.tensors().rbegin()->flat_end();
  merged.values_.resize(static_cast<size_t>(end - begin));
  ZF_RETURN_IF_ERROR(LoadWeights(step_dir, manifest, {{begin, end, 0}}, which,
                                 [&merged](int64_t offset, std::span<const float> values) {
                                   std::ranges::copy(values, merged.values_.begin() + offset);
                                   return absl::OkStatus();
                                 }));
  for (auto entry = first; entry != manifest.tensors().end(); ++entry) {
    const std::string& name = entry->name();
    const bool is_a = name.ends_with(kEndOfA);
    const std::string weight = absl::StrCat(name.substr(0, name.size() - kEndOfA.size()), ".weight");
    Adapter& adapter = merged.adapters_[weight];
    const std::span<const float> values = std::span(merged.values_)
                                              .subspan(static_cast<size_t>(entry->flat_begin() - begin),
                                                       static_cast<size_t>(entry->flat_end() - entry->flat_begin()));
    (is_a ? adapter.a : adapter.b) = values;
    if (is_a) adapter.columns = entry->shape(1);
  }
  return merged;
}

void MergedAdapters::AddTo(const std::string& weight, int64_t first, std::span<float> values) const {
  const Adapter& adapter = adapters_.at(weight);
  for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
    const int64_t row = (first + i) / adapter.columns, column = (first + i) % adapter.columns;
    float sum = 0;
    for (int64_t r = 0; r < rank_; ++r) sum += adapter.b[row * rank_ + r] * adapter.a[r * adapter.columns + column];
    values[i] += scale_ * sum;
  }
}

}  // namespace zerofleet::checkpoint
