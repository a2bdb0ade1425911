// config.json of transformers' GPT-2 and our model configuration.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_HUGGINGFACE_CONFIG_H_
#define ZEROFLEET_WORKER_CHECKPOINT_HUGGINGFACE_CONFIG_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet {

// The files of a model's directory, and what the names of GPT-2's tensors begin with.
inline constexpr char kHuggingFaceConfigName[] = "config.json";
inline constexpr char kHuggingFaceWeightsName[] = "model.safetensors";
inline constexpr std::string_view kHuggingFacePrefix = "transformer.";

// The text of config.json for a gpt2 model.
std::string HuggingFaceConfigText(const v1::ModelConfig& model);

// The model that a config.json describes. DataLoss if a size is missing or of the wrong type, InvalidArgument, naming
// the key, for a variant whose arithmetic differs from ours.
absl::StatusOr<v1::ModelConfig> ParseHuggingFaceConfig(std::string_view text);

// Whether transformers stores this tensor (in, out): the weights of GPT-2's projections.
bool IsConv1D(std::string_view tensor_name);

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_CHECKPOINT_HUGGINGFACE_CONFIG_H_
