// Table rows to and from manifest entries; see tensor_table.h.
#include "worker/trainer/tensor_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/checkpoint/manifest.h"

namespace zerofleet {

void SetTensorTable(const ModelSpec& spec, v1::CheckpointManifest* manifest) {
  manifest->clear_tensors();
  for (const TensorSpec& tensor : spec.tensors()) {
    v1::TensorEntry* entry = manifest->add_tensors();
    entry->set_name(tensor.name);
    entry->set_dtype(kStoredDType);
    for (int64_t side : tensor.shape) entry->add_shape(side);
    entry->set_flat_begin(tensor.flat_begin);
    entry->set_flat_end(tensor.flat_end);
  }
}

absl::Status CheckTensorTable(const ModelSpec& spec, const v1::CheckpointManifest& manifest, const std::string& step_dir) {
  auto text = [](const std::string& name, const auto& shape) { return absl::StrCat(name, " [", absl::StrJoin(shape, ","), "]"); };
  size_t ours = spec.tensors().size(), theirs = static_cast<size_t>(manifest.tensors_size());
  for (size_t i = 0; i < std::max(ours, theirs); ++i) {
    std::string expected = i < ours ? text(spec.tensors()[i].name, spec.tensors()[i].shape) : "nothing";
    std::string found = i < theirs ? text(manifest.tensors(i).name(), manifest.tensors(i).shape()) : "nothing";
    if (expected == found) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(step_dir, ": holds another model: its tensor ", i, " is ", found, ", the configuration's is ", expected));
  }
  return absl::OkStatus();
}

}  // namespace zerofleet
