// The keys of config.json that the Llama family has besides sizes: rotary positions, epsilon, tied or untied heads.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_HUGGINGFACE_LLAMA_H_
#define ZEROFLEET_WORKER_CHECKPOINT_HUGGINGFACE_LLAMA_H_

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "zerofleet/v1/config.pb.h"

namespace zerofleet::checkpoint {

// Reads the keys from an object of transformers 4 (rope_theta, rope_scaling) or 5 (rope_parameters); `model` has its
// sizes already. InvalidArgument, naming the key, for an unsupported value that changes the function; DataLoss for a
// value that is not a number.
absl::Status ReadLlamaKeys(const nlohmann::json& config, v1::ModelConfig* model);

// Writes the keys so that both versions read them.
void WriteLlamaKeys(const v1::ModelConfig& model, nlohmann::ordered_json* config);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_HUGGINGFACE_LLAMA_H_
