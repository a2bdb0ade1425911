// Converts between transformers' config.json and our model configuration, by the family's row (worker/model/family.h).
#ifndef ZEROFLEET_WORKER_CHECKPOINT_HUGGINGFACE_CONFIG_H_
#define ZEROFLEET_WORKER_CHECKPOINT_HUGGINGFACE_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "worker/device/dtype.h"
#include "worker/model/families.h"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::checkpoint {

// The files in a model's directory.
inline constexpr char kHuggingFaceConfigName[] = "config.json";
inline constexpr char kHuggingFaceWeightsName[] = "model.safetensors";

// The text of config.json for a model of `family` whose weights are stored as `dtype`, and whose tokenizer, if known,
// ends a text with `end_of_text`.
std::string HuggingFaceConfigText(const model::ModelFamily& family, const v1::ModelConfig& model,
                                  device::DType dtype = device::DType::kF32,
                                  std::optional<int32_t> end_of_text = std::nullopt);

// The model that a config.json describes. DataLoss if a size is missing or of the wrong type, InvalidArgument, naming
// the key, for a variant whose arithmetic differs from ours.
absl::StatusOr<v1::ModelConfig> ParseHuggingFaceConfig(std::string_view text);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_HUGGINGFACE_CONFIG_H_
