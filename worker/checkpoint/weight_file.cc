// Puts pieces of shards at their places in a mapped file; see weight_file.h.
#include "worker/checkpoint/weight_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file.h"
#include "base/status.h"
#include "worker/checkpoint/merged_adapters.h"
#include "worker/checkpoint/shard_reader.h"

namespace zerofleet::checkpoint {
namespace {

// The place in the file's tensor of our element `i`.
int64_t PlaceOf(const PlacedWeight& weight, int64_t i) {
  if (weight.order == ElementOrder::kOurs) return i;
  const int64_t row = i / weight.columns, column = i % weight.columns;
  if (weight.order == ElementOrder::kTransposed) {
    return column * ((weight.flat_end - weight.flat_begin) / weight.columns) + row;
  }
  const int64_t half = weight.head_size / 2, in_head = row % weight.head_size;
  return (row - in_head + in_head % half * 2 + in_head / half) * weight.columns + column;
}

// Puts the weight's elements from `first` on. Returns the index in `values` of the first that its type cannot hold, or
// -1.
template <typename T>
int64_t PutElements(const PlacedWeight& weight, int64_t first, std::span<const float> values, std::byte* file) {
  for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
    const float value = values[i];
    const T stored = device::FromFloat<T>(value);
    if (std::isfinite(value) && !std::isfinite(device::ToFloat(stored))) return i;
    std::memcpy(file + weight.at + PlaceOf(weight, first + i) * static_cast<int64_t>(sizeof(T)), &stored,
                sizeof stored);
  }
  return -1;
}

absl::Status PutBytes(const PlacedWeight& weight, int64_t first, std::span<const float> values, std::byte* file) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (!(values[i] >= 0 && values[i] <= 255 && values[i] == std::floor(values[i]))) {
      return absl::DataLossError(
          absl::StrCat("buffer '", weight.name, "': byte ", first + static_cast<int64_t>(i), " is ", values[i]));
    }
    file[weight.at + first + static_cast<int64_t>(i)] = static_cast<std::byte>(values[i]);
  }
  return absl::OkStatus();
}

absl::Status PutValues(const PlacedWeight& weight, int64_t first, std::span<const float> values, std::byte* file) {
  if (weight.bytes) return PutBytes(weight, first, values, file);
  int64_t odd = -1;
  switch (weight.dtype) {
    case device::DType::kF32: odd = PutElements<float>(weight, first, values, file); break;
    case device::DType::kBF16: odd = PutElements<device::BF16>(weight, first, values, file); break;
    case device::DType::kF16: odd = PutElements<device::F16>(weight, first, values, file); break;
  }
  if (odd < 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tensor '", weight.name, "': element ", first + odd, " is ",
                                                 values[odd], ", which ", device::DTypeName(weight.dtype),
                                                 " cannot hold; export as fp32"));
}

absl::Status PutAll(const std::vector<PlacedWeight>& weights, std::span<std::byte> file, const std::string& step_dir,
                    const v1::CheckpointManifest& manifest, WeightsOf which) {
  const int64_t begin = weights.front().flat_begin, end = weights.back().flat_end;
  ZF_ASSIGN_OR_RETURN(const MergedAdapters adapters, MergedAdapters::Load(step_dir, manifest, which));
  std::vector<float> merged;
  return LoadWeights(
      step_dir, manifest, {{begin, end, begin}}, which,
      [&](int64_t offset, std::span<const float> values) -> absl::Status {
        auto weight = std::upper_bound(weights.begin(), weights.end(), offset,
                                       [](int64_t at, const PlacedWeight& one) { return at < one.flat_end; });
        while (!values.empty()) {
          ZF_CHECK(weight != weights.end());
          if (offset < weight->flat_begin) {  // of a tensor that is left out
            const auto skipped = std::min(static_cast<int64_t>(values.size()), weight->flat_begin - offset);
            values = values.subspan(static_cast<size_t>(skipped));
            offset += skipped;
            continue;
          }
          const auto count = std::min(static_cast<int64_t>(values.size()), weight->flat_end - offset);
          std::span<const float> piece = values.first(static_cast<size_t>(count));
          if (adapters.Has(weight->name)) {
            merged.assign(piece.begin(), piece.end());
            adapters.AddTo(weight->name, offset - weight->flat_begin, merged);
            piece = merged;
          }
          ZF_RETURN_IF_ERROR(PutValues(*weight, offset - weight->flat_begin, piece, file.data()));
          values = values.subspan(static_cast<size_t>(count));
          offset += count;
          ++weight;
        }
        return absl::OkStatus();
      });
}

}  // namespace

absl::Status WriteWeightFile(const std::string& path, std::string_view header, int64_t bytes,
                             const std::vector<PlacedWeight>& weights, const std::string& step_dir,
                             const v1::CheckpointManifest& manifest, WeightsOf which) {
  ZF_RETURN_IF_ERROR(CheckShardLengths(step_dir, manifest));
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<MappedOutput> file, MappedOutput::Create(path, bytes));
  std::memcpy(file->bytes().data(), header.data(), header.size());
  absl::Status written = PutAll(weights, file->bytes(), step_dir, manifest, which);
  if (written.ok()) written = file->Sync();
  if (!written.ok()) RemoveOne(path).IgnoreError();
  return written;
}

void SafetensorsFile::Add(const v1::TensorEntry& entry, const std::string& name, bool transposed) {
  SafetensorsTensor tensor;
  tensor.name = name;
  tensor.dtype = SafetensorsTypeOf(dtype_);
  tensor.shape.assign(entry.shape().begin(), entry.shape().end());
  weights_.push_back({.name = name,
                      .flat_begin = entry.flat_begin(),
                      .flat_end = entry.flat_end(),
                      .columns = tensor.shape.back(),
                      .dtype = dtype_,
                      .order = transposed ? ElementOrder::kTransposed : ElementOrder::kOurs,
                      .head_size = 0,
                      .at = 0});
  if (transposed) std::swap(tensor.shape[0], tensor.shape[1]);
  tensors_.push_back(std::move(tensor));
}

void SafetensorsFile::AddBuffer(const v1::TensorEntry& entry, const v1::ForeignBuffer& buffer) {
  weights_.push_back({.name = entry.name(),
                      .flat_begin = entry.flat_begin(),
                      .flat_end = entry.flat_end(),
                      .columns = entry.flat_end() - entry.flat_begin(),
                      .dtype = dtype_,
                      .order = ElementOrder::kOurs,
                      .head_size = 0,
                      .at = 0,
                      .bytes = true});
  tensors_.push_back(
      {.name = entry.name(), .dtype = buffer.dtype(), .shape = {buffer.shape().begin(), buffer.shape().end()}});
}

// The widest elements come first, so that each tensor's data are aligned to them.
absl::Status SafetensorsFile::Write(const std::string& path, const std::string& step_dir,
                                    const v1::CheckpointManifest& manifest, WeightsOf which) {
  std::vector<size_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return SafetensorsBytes(tensors_[a].dtype, {}) > SafetensorsBytes(tensors_[b].dtype, {});
  });
  std::vector<SafetensorsTensor> stored;
  for (const size_t i : order) stored.push_back(tensors_[i]);
  const std::string header = EncodeSafetensorsHeader(stored);
  auto bytes = static_cast<int64_t>(header.size());
  for (const size_t i : order) {
    weights_[i].at = bytes;
    bytes += weights_[i].StoredBytes();
  }
  return WriteWeightFile(path, header, bytes, weights_, step_dir, manifest, which);
}

}  // namespace zerofleet::checkpoint
