// Reads and writes keys of config.json, one by one; see huggingface_llama.h.
#include "worker/checkpoint/huggingface_llama.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "proto/json.h"

namespace zerofleet::checkpoint {
namespace {

using nlohmann::json;

bool IsSet(const json& object, const char* key) { return object.contains(key) && !object[key].is_null(); }

absl::StatusOr<double> Number(const json& object, const char* key, double otherwise) {
  if (!IsSet(object, key)) return otherwise;
  if (object[key].is_number()) {
    const double value = object[key].get<double>();
    if (std::isfinite(value) && value > 0) return value;
  }
  return absl::DataLossError(absl::StrCat(key, " is no positive number"));
}

absl::StatusOr<bool> Flag(const json& object, const char* key, bool otherwise) {
  if (!IsSet(object, key)) return otherwise;
  if (object[key].is_boolean()) return object[key].get<bool>();
  return absl::DataLossError(absl::StrCat(key, " must be true or false"));
}

absl::Status LlamaNotSupported(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(what, ", which is not supported"));
}

absl::Status ReadScaling(const json& rope, v1::RopeScalingConfig* scaling) {
  // "type" is the older name.
  std::string type = "default";
  for (const char* key : {"type", "rope_type"}) {
    if (!IsSet(rope, key)) continue;
    if (!rope[key].is_string()) return absl::DataLossError(absl::StrCat("rope_scaling.", key, " must be a string"));
    type = rope[key].get<std::string>();
  }
  if (type == "default") return absl::OkStatus();
  if (type != "linear" && type != "llama3")
    return LlamaNotSupported(absl::StrCat("rope_scaling is of type '", type, "'"));
  scaling->set_type(type);
  ZF_ASSIGN_OR_RETURN(const double factor, Number(rope, "factor", 1));
  scaling->set_factor(factor);
  if (type == "linear") return absl::OkStatus();
  ZF_ASSIGN_OR_RETURN(const double low, Number(rope, "low_freq_factor", 1));
  ZF_ASSIGN_OR_RETURN(const double high, Number(rope, "high_freq_factor", 4));
  ZF_ASSIGN_OR_RETURN(const double original, Number(rope, "original_max_position_embeddings", 8192));
  if (original > 1e7) return absl::DataLossError("rope_scaling.original_max_position_embeddings is too large");
  if (high <= low) return absl::DataLossError("rope_scaling.high_freq_factor must be above low_freq_factor");
  scaling->set_low_freq_factor(low);
  scaling->set_high_freq_factor(high);
  scaling->set_original_max_position_embeddings(static_cast<int64_t>(original));
  return absl::OkStatus();
}

absl::Status CheckFunction(const json& config, const v1::ModelConfig& model) {
  ZF_ASSIGN_OR_RETURN(const double partial, Number(config, "partial_rotary_factor", 1));
  if (partial != 1) return LlamaNotSupported(absl::StrCat("partial_rotary_factor is ", partial));
  const bool uses_window = !config.contains("use_sliding_window") || config["use_sliding_window"] != false;
  if (!uses_window || !IsSet(config, "sliding_window")) return absl::OkStatus();
  ZF_ASSIGN_OR_RETURN(const double window, Number(config, "sliding_window", 0));
  if (window >= static_cast<double>(model.context())) return absl::OkStatus();
  return LlamaNotSupported(
      absl::StrCat("sliding_window is ", window, ", shorter than the context of ", model.context()));
}

}  // namespace

absl::Status ReadLlamaKeys(const json& config, v1::ModelConfig* model) {
  ZF_RETURN_IF_ERROR(CheckFunction(config, *model));
  if (model->head_size() == 0) model->set_head_size(model->hidden() / model->heads());
  ZF_ASSIGN_OR_RETURN(const double epsilon, Number(config, "rms_norm_eps", 1e-6));
  model->set_norm_epsilon(epsilon);
  ZF_ASSIGN_OR_RETURN(const bool tied, Flag(config, "tie_word_embeddings", false));
  model->set_tied(tied);
  model->mutable_rope_scaling()->set_type("none");
  json rope = json::object();
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!IsSet(config, key)) continue;
    if (!config[key].is_object()) return absl::DataLossError(absl::StrCat(key, " must be an object"));
    rope = config[key];
  }
  ZF_ASSIGN_OR_RETURN(const double outer, Number(config, "rope_theta", 1e4));
  ZF_ASSIGN_OR_RETURN(const double theta, Number(rope, "rope_theta", outer));
  model->set_rope_theta(theta);
  return ReadScaling(rope, model->mutable_rope_scaling());
}

void WriteLlamaKeys(const v1::ModelConfig& model, nlohmann::ordered_json* config) {
  nlohmann::ordered_json& out = *config;
  out["rms_norm_eps"] = model.norm_epsilon();
  out["tie_word_embeddings"] = model.tied();
  out["rope_theta"] = model.rope_theta();
  const v1::RopeScalingConfig& scaling = model.rope_scaling();
  nlohmann::ordered_json rope = {{"rope_type", "default"}};
  if (scaling.type() == "linear") {
    rope = {{"rope_type", scaling.type()}, {"factor", scaling.factor()}};
    // transformers before 4.43 reads only this spelling.
    out["rope_scaling"] = {{"type", scaling.type()}, {"factor", scaling.factor()}};
  }
  if (scaling.type() == "llama3") {
    rope = {{"rope_type", scaling.type()},
            {"factor", scaling.factor()},
            {"low_freq_factor", scaling.low_freq_factor()},
            {"high_freq_factor", scaling.high_freq_factor()},
            {"original_max_position_embeddings", scaling.original_max_position_embeddings()}};
    out["rope_scaling"] = rope;
  }
  rope["rope_theta"] = model.rope_theta();
  out["rope_parameters"] = rope;
}

}  // namespace zerofleet::checkpoint
