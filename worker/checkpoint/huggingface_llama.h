// What config.json says of the Llama family beyond sizes: rotary positions, epsilon, tied or untied heads.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_HUGGINGFACE_LLAMA_H_
#define ZEROFLEET_WORKER_CHECKPOINT_HUGGINGFACE_LLAMA_H_

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::checkpoint {

// From an object of transformers 4 (rope_theta, rope_scaling) or 5 (rope_parameters), whose sizes `model` has already.
// InvalidArgument that names what changes the function and is not supported; DataLoss for what is no number.
absl::Status ReadLlamaKeys(const nlohmann::json& config, v1::ModelConfig* model);

// As both versions read it.
void WriteLlamaKeys(const v1::ModelConfig& model, nlohmann::ordered_json* config);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_HUGGINGFACE_LLAMA_H_
