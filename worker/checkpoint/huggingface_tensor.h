// How a tensor of ours is stored in a Hugging Face file: its name without the prefix, its shape, its order.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_HUGGINGFACE_TENSOR_H_
#define ZEROFLEET_WORKER_CHECKPOINT_HUGGINGFACE_TENSOR_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/checkpoint/weight_source.h"
#include "worker/model/families.h"
#include "worker/model/spec.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::checkpoint {

// The model that the config.json in a directory describes.
absl::StatusOr<v1::ModelConfig> ReadHuggingFaceModel(const std::string& hf_dir);

std::string SourceName(const model::HuggingFaceFormat& format, const model::TensorSpec& tensor);
std::vector<int64_t> SourceShape(const model::HuggingFaceFormat& format, const model::TensorSpec& tensor);

// Reads the tensor `name` of `source`, which corresponds to `tensor`, and puts it in our order. Errors are
// WeightSource::Read's.
absl::Status ReadSourceTensor(const WeightSource& source, const std::string& name,
                              const model::HuggingFaceFormat& format, const model::TensorSpec& tensor,
                              std::span<float> into);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_HUGGINGFACE_TENSOR_H_
