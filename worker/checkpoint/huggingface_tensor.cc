// Names, shapes and transposition; see huggingface_tensor.h.
#include "worker/checkpoint/huggingface_tensor.h"

#include "base/file.h"
#include "base/status.h"
#include "worker/checkpoint/huggingface_config.h"
#include "worker/checkpoint/transpose.h"

namespace zerofleet::checkpoint {
namespace {

constexpr int64_t kMaxConfigBytes = int64_t{1} << 20;

bool IsTransposed(const model::HuggingFaceFormat& format, const model::TensorSpec& tensor) {
  return format.transposes_products && tensor.projects;
}

}  // namespace

absl::StatusOr<v1::ModelConfig> ReadHuggingFaceModel(const std::string& hf_dir) {
  const std::string path = JoinPath(hf_dir, kHuggingFaceConfigName);
  ZF_ASSIGN_OR_RETURN(std::string text, ReadSmallFile(path, kMaxConfigBytes));
  absl::StatusOr<v1::ModelConfig> model = ParseHuggingFaceConfig(text);
  if (!model.ok()) return Annotate(model.status(), path);
  return model;
}

std::string SourceName(const model::HuggingFaceFormat& format, const model::TensorSpec& tensor) {
  return tensor.name.starts_with(format.prefix) ? tensor.name.substr(format.prefix.size()) : tensor.name;
}

std::vector<int64_t> SourceShape(const model::HuggingFaceFormat& format, const model::TensorSpec& tensor) {
  if (!IsTransposed(format, tensor)) return tensor.shape;
  return {tensor.shape[1], tensor.shape[0]};
}

absl::Status ReadSourceTensor(const WeightSource& source, const std::string& name,
                              const model::HuggingFaceFormat& format, const model::TensorSpec& tensor,
                              std::span<float> into) {
  const std::vector<int64_t> shape = SourceShape(format, tensor);
  if (!IsTransposed(format, tensor)) return source.Read(name, shape, into);
  std::vector<float> turned(into.size());
  ZF_RETURN_IF_ERROR(source.Read(name, shape, turned));
  Transpose(turned, tensor.shape[1], tensor.shape[0], into);
  return absl::OkStatus();
}

}  // namespace zerofleet::checkpoint
