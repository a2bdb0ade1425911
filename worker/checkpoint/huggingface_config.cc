// Writes and reads config.json by the rows of the table of families; see huggingface_config.h.
#include "worker/checkpoint/huggingface_config.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "proto/json.h"
#include "proto/json_parse.h"
#include "worker/checkpoint/huggingface_llama.h"

namespace zerofleet::checkpoint {
namespace {

using nlohmann::json;

// Parses a row's constant; a test of the rows shows that all of them parse.
nlohmann::ordered_json Constant(const char* text) { return nlohmann::ordered_json::parse(text); }

// The family whose model_type config.json names; the first family if it names none.
absl::StatusOr<const model::ModelFamily*> FamilyOf(const json& config) {
  if (!config.contains("model_type")) return model::ModelFamilies().front();
  const json& type = config["model_type"];
  std::vector<std::string> types;
  for (const model::ModelFamily* family : model::ModelFamilies()) {
    for (const model::HuggingFaceFormat::Variant& variant : family->hugging_face.variants) {
      if (type == variant.model_type) return family;
      types.push_back(absl::StrCat("\"", variant.model_type, "\""));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("model_type is ", DumpJson(type), ", this version needs ", absl::StrJoin(types, " or ")));
}

const char* TorchName(device::DType dtype) {
  switch (dtype) {
    case device::DType::kF32: return "float32";
    case device::DType::kBF16: return "bfloat16";
    case device::DType::kF16: return "float16";
  }
  return "";
}

absl::Status CheckSettings(const model::HuggingFaceFormat& format, const json& config) {
  for (const model::HuggingFaceFormat::Setting& setting : format.settings) {
    if (!config.contains(setting.key)) continue;
    const json& value = config[setting.key];
    const json accepted = json::parse(setting.accepted);
    if (std::find(accepted.begin(), accepted.end(), value) != accepted.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(setting.key, " is ", DumpJson(value), ", this version needs ", DumpJson(accepted.front())));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Size(const json& config, const char* key) {
  constexpr uint64_t kMost = uint64_t{1} << 40;
  if (config.contains(key) && config[key].is_number_unsigned()) {
    uint64_t value = config[key].get<uint64_t>();
    if (value >= 1 && value <= kMost) return static_cast<int64_t>(value);
  }
  return absl::DataLossError(absl::StrCat(key, " is missing or no positive integer"));
}

}  // namespace

std::string HuggingFaceConfigText(const model::ModelFamily& family, const v1::ModelConfig& model, device::DType dtype,
                                  std::optional<int32_t> end_of_text) {
  const model::HuggingFaceFormat& format = family.hugging_face;
  const auto variant =
      std::find_if(format.variants.begin(), format.variants.end(), [&](const model::HuggingFaceFormat::Variant& one) {
        return one.qkv_bias == model.qkv_bias() && one.qk_norm == model.qk_norm();
      });
  nlohmann::ordered_json config = {{"architectures", nlohmann::ordered_json::array({variant->architecture})},
                                   {"model_type", variant->model_type}};
  for (const model::HuggingFaceFormat::Size& size : format.sizes) config[size.key] = (model.*size.get)();
  for (const model::HuggingFaceFormat::Setting& setting : format.settings) {
    config[setting.key] = Constant(setting.accepted).front();
  }
  if (format.llama_keys) WriteLlamaKeys(model, &config);
  config.update(Constant(format.constants));
  config["torch_dtype"] = TorchName(dtype);
  nlohmann::ordered_json end = nullptr;
  if (model.vocab() == format.end_of_text_vocab) end = model.vocab() - 1;
  config["bos_token_id"] = end;
  if (end_of_text) end = *end_of_text;
  config["eos_token_id"] = end;
  return DumpJson(config, 2) + "\n";
}

absl::StatusOr<v1::ModelConfig> ParseHuggingFaceConfig(std::string_view text) {
  absl::StatusOr<json> parsed = ParseJson(text);
  if (!parsed.ok()) return absl::DataLossError(std::string(parsed.status().message()));
  const json& config = *parsed;
  if (!config.is_object()) return absl::DataLossError("not a JSON object");
  ZF_ASSIGN_OR_RETURN(const model::ModelFamily* family, FamilyOf(config));
  const model::HuggingFaceFormat& format = family->hugging_face;
  ZF_RETURN_IF_ERROR(CheckSettings(format, config));
  v1::ModelConfig model;
  model.set_family(family->name);
  for (const model::HuggingFaceFormat::Size& size : format.sizes) {
    if (!size.required && (!config.contains(size.key) || config[size.key].is_null())) continue;
    ZF_ASSIGN_OR_RETURN(const int64_t value, Size(config, size.key));
    (model.*size.set)(value);
  }
  if (model.kv_heads() == 0) model.set_kv_heads(model.heads());
  if (format.llama_keys) {
    for (const model::HuggingFaceFormat::Variant& variant : format.variants) {
      if (config.contains("model_type") && config["model_type"] == variant.model_type) {
        model.set_qkv_bias(variant.qkv_bias);
        model.set_qk_norm(variant.qk_norm);
      }
    }
    ZF_RETURN_IF_ERROR(ReadLlamaKeys(config, &model));
  }
  if (model.intermediate() == 0) model.set_intermediate(family->default_intermediate(model.hidden()));
  return model;
}

}  // namespace zerofleet::checkpoint
