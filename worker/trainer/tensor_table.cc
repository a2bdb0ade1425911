// Table rows to manifest entries; see tensor_table.h.
#include "worker/trainer/tensor_table.h"

#include "worker/checkpoint/manifest.h"

namespace zerofleet::trainer {

void SetTensorTable(const model::ModelSpec& spec, v1::CheckpointManifest* manifest) {
  manifest->clear_tensors();
  for (const model::TensorSpec& tensor : spec.tensors()) {
    v1::TensorEntry* entry = manifest->add_tensors();
    entry->set_name(tensor.name);
    entry->set_dtype(checkpoint::kStoredDType);
    for (int64_t side : tensor.shape) entry->add_shape(side);
    entry->set_flat_begin(tensor.flat_begin);
    entry->set_flat_end(tensor.flat_end);
  }
}

}  // namespace zerofleet::trainer
