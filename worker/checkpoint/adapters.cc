// PEFT's two files; see adapters.h.
#include "worker/checkpoint/adapters.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "proto/json.h"
#include "proto/json_parse.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/commit.h"
#include "worker/checkpoint/huggingface_source.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/merged_adapters.h"
#include "worker/checkpoint/shard_writer.h"
#include "worker/checkpoint/step_name.h"
#include "worker/checkpoint/tokenizer_files.h"
#include "worker/checkpoint/weight_file.h"
#include "worker/model/families.h"
#include "worker/model/spec.h"

namespace zerofleet::checkpoint {
namespace {

constexpr std::string_view kPeftPrefix = "base_model.model.";
constexpr int64_t kMaxAdapterConfigBytes = int64_t{1} << 20;

// PEFT's tensors have our names behind PEFT's prefix.
const model::HuggingFaceFormat& PeftFormat() {
  static const model::HuggingFaceFormat& format = *new model::HuggingFaceFormat{.variants = {},
                                                                                .sizes = {},
                                                                                .settings = {},
                                                                                .constants = "{}",
                                                                                .end_of_text_vocab = 0,
                                                                                .prefix = kPeftPrefix,
                                                                                .blocks = "",
                                                                                .transposes_products = false,
                                                                                .buffers = {},
                                                                                .llama_keys = false};
  return format;
}

// The names within a block of the products that have an adapter: each once, in the order of the table.
std::vector<std::string> AdaptedProducts(const model::ModelSpec& spec, const model::HuggingFaceFormat& format) {
  const std::string blocks = absl::StrCat(std::string(format.prefix), std::string(format.blocks), "0.");
  std::vector<std::string> products;
  for (const model::TensorSpec& tensor : spec.tensors()) {
    const std::string_view name = tensor.name;
    if (!name.starts_with(blocks) || !name.ends_with(kEndOfA)) continue;
    products.emplace_back(name.substr(blocks.size(), name.size() - blocks.size() - kEndOfA.size()));
  }
  return products;
}

std::string AdapterConfigText(const v1::ModelConfig& model, const model::ModelFamily& family,
                              const model::ModelSpec& spec) {
  const nlohmann::ordered_json json = {{"peft_type", "LORA"},
                                       {"task_type", "CAUSAL_LM"},
                                       {"base_model_name_or_path", nullptr},
                                       {"r", model.lora().rank()},
                                       {"lora_alpha", model.lora().alpha()},
                                       {"lora_dropout", 0.0},
                                       {"target_modules", AdaptedProducts(spec, family.hugging_face)},
                                       {"fan_in_fan_out", family.hugging_face.transposes_products},
                                       {"bias", "none"},
                                       {"modules_to_save", nullptr},
                                       {"use_rslora", false},
                                       {"use_dora", false},
                                       {"rank_pattern", nlohmann::ordered_json::object()},
                                       {"alpha_pattern", nlohmann::ordered_json::object()},
                                       {"init_lora_weights", true},
                                       {"inference_mode", true}};
  return DumpJson(json, 2) + "\n";
}

// Checks the settings of adapter_config.json that change the arithmetic: each must have the supported value or be
// absent.
absl::Status CheckAdapterConfig(const nlohmann::json& json) {
  const nlohmann::json nothing = nlohmann::json::object();
  const std::vector<std::pair<const char*, std::vector<nlohmann::json>>> settings = {
      {"peft_type", {"LORA"}},
      {"bias", {"none"}},
      {"use_rslora", {false}},
      {"use_dora", {false}},
      {"modules_to_save", {nullptr, nlohmann::json::array()}},
      {"rank_pattern", {nothing, nullptr}},
      {"alpha_pattern", {nothing, nullptr}},
      {"layers_to_transform", {nullptr}},
      {"layer_replication", {nullptr}},
  };
  for (const auto& [key, accepted] : settings) {
    if (!json.contains(key) || std::find(accepted.begin(), accepted.end(), json[key]) != accepted.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(key, " is ", json[key].dump(), ", and this version trains ", accepted.front().dump()));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::LoraConfig> ParseAdapterConfig(const std::string& text) {
  ZF_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(text));
  if (!json.is_object()) return absl::DataLossError("not an object");
  ZF_RETURN_IF_ERROR(CheckAdapterConfig(json));
  constexpr int64_t kMostRank = 65536;
  const auto number = [&](const char* key) {
    return json.contains(key) && json[key].is_number() ? json[key].get<double>() : 0.0;
  };
  v1::LoraConfig lora;
  const double rank = number("r"), alpha = number("lora_alpha");
  if (!(rank >= 1 && rank <= kMostRank && rank == static_cast<double>(static_cast<int64_t>(rank)))) {
    return absl::DataLossError(absl::StrCat("r must be 1 to ", kMostRank));
  }
  if (!(alpha > 0 && alpha <= 1e6)) return absl::DataLossError("lora_alpha must be > 0 and <= 1e6");
  lora.set_rank(static_cast<int32_t>(rank));
  lora.set_alpha(alpha);
  const nlohmann::json targets = json.contains("target_modules") ? json["target_modules"] : nlohmann::json();
  if (targets == "all-linear") return lora;
  if (!targets.is_array() || targets.empty()) {
    return absl::InvalidArgumentError("target_modules must be a list of names, or all-linear");
  }
  for (const nlohmann::json& target : targets) {
    if (!target.is_string()) return absl::DataLossError("target_modules must be a list of names, or all-linear");
    lora.add_targets(target.get<std::string>());
  }
  return lora;
}

// The manifest of the base's model with these adapters, which have a table of their own.
absl::StatusOr<v1::CheckpointManifest> AdaptedManifest(const v1::CheckpointManifest& base, const std::string& base_dir,
                                                       const std::string& base_digest, const v1::LoraConfig& lora,
                                                       const ImportStamp& stamp) {
  if (base.config().model().has_lora()) {
    return absl::InvalidArgumentError(
        absl::StrCat(base_dir, ": has adapters already; export it merged, and import that"));
  }
  v1::CheckpointManifest manifest;
  v1::Config& config = *manifest.mutable_config();
  config = base.config();
  config.set_init_from(base_dir);
  config.mutable_model()->clear_freeze();
  config.clear_ema();  // PEFT's directory holds no average
  config.mutable_evaluate()->clear_weights();
  *config.mutable_model()->mutable_lora() = lora;
  config.mutable_parallel()->set_tensor(1);
  ZF_ASSIGN_OR_RETURN(const model::ModelSpec spec, model::ModelSpec::Create(config.model()));
  for (const model::TensorSpec& tensor : spec.tensors()) {
    v1::TensorEntry& entry = *manifest.add_tensors();
    entry.set_name(tensor.name);
    entry.set_dtype(kStoredDType);
    entry.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
    entry.set_flat_begin(tensor.flat_begin);
    entry.set_flat_end(tensor.flat_end);
  }
  manifest.set_format_version(FormatVersionOf(config));
  manifest.mutable_data_cursor()->set_samples_consumed(0);
  manifest.mutable_loss_scale()->set_scale(1);
  manifest.mutable_random()->set_seed(config.seed());
  manifest.set_world_size(1);
  manifest.set_zero_stage(config.parallel().zero_stage());
  manifest.set_base_xxh3_128(base_digest);
  manifest.set_writer_version(stamp.writer_version);
  manifest.set_committed_unix_seconds(stamp.committed_unix_seconds);
  return manifest;
}

}  // namespace

absl::Status ExportAdapters(const std::string& step_dir, const std::string& out_dir, device::DType dtype,
                            WeightsOf which) {
  ZF_ASSIGN_OR_RETURN(const v1::CheckpointManifest manifest, ReadManifest(step_dir));
  const v1::ModelConfig& model = manifest.config().model();
  if (model.lora().rank() == 0)
    return absl::InvalidArgumentError(absl::StrCat(step_dir, ": its model has no adapters"));
  ZF_ASSIGN_OR_RETURN(const model::ModelFamily* family, model::FindModelFamily(model.family()));
  ZF_ASSIGN_OR_RETURN(const model::ModelSpec spec, model::ModelSpec::Create(model));
  const std::string weights_path = JoinPath(out_dir, kAdapterWeightsName),
                    config_path = JoinPath(out_dir, kAdapterConfigName);
  for (const std::string& path : {weights_path, config_path}) {
    ZF_ASSIGN_OR_RETURN(const bool there, IsThere(path));
    if (there) return absl::FailedPreconditionError(absl::StrCat(path, ": already exists and is not overwritten"));
  }
  SafetensorsFile file(dtype);
  for (const v1::TensorEntry& entry : manifest.tensors()) {
    if (IsAdapter(entry.name())) file.Add(entry, absl::StrCat(std::string(kPeftPrefix), entry.name()), false);
  }
  ZF_ASSIGN_OR_RETURN(const bool there, IsThere(out_dir));
  ZF_RETURN_IF_ERROR(CreateDirectories(out_dir));
  const absl::Cleanup tidy = [&] {
    if (!there) RemoveOne(out_dir).IgnoreError();  // it is empty if nothing could be written
  };
  ZF_RETURN_IF_ERROR(file.Write(weights_path, step_dir, manifest, which));
  return WriteFileAtomically(config_path, AdapterConfigText(model, *family, spec));
}

absl::Status ImportAdapters(const std::string& adapter_dir, const std::string& base_dir, const std::string& step_dir,
                            const ImportStamp& stamp) {
  const std::string config_path = JoinPath(adapter_dir, kAdapterConfigName),
                    weights_path = JoinPath(adapter_dir, kAdapterWeightsName);
  ZF_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(config_path, kMaxAdapterConfigBytes));
  const absl::StatusOr<v1::LoraConfig> lora = ParseAdapterConfig(text);
  if (!lora.ok()) return Annotate(lora.status(), config_path);
  std::string digest;
  ZF_ASSIGN_OR_RETURN(const v1::CheckpointManifest base, ReadManifest(base_dir, &digest));
  absl::StatusOr<v1::CheckpointManifest> made = AdaptedManifest(base, base_dir, digest, *lora, stamp);
  if (!made.ok()) return Annotate(made.status(), config_path);
  v1::CheckpointManifest& manifest = *made;
  ZF_ASSIGN_OR_RETURN(const HuggingFaceSource source, HuggingFaceSource::OpenFile(weights_path, PeftFormat()));
  std::vector<float> values;
  int64_t begin = -1, end = -1;
  size_t found = 0;
  for (const v1::TensorEntry& entry : manifest.tensors()) {
    if (!IsAdapter(entry.name())) continue;
    if (begin < 0) begin = entry.flat_begin();
    end = entry.flat_end();
    const std::vector<int64_t> shape(entry.shape().begin(), entry.shape().end());
    ZF_RETURN_IF_ERROR(source.Check(entry.name(), shape));
    values.resize(static_cast<size_t>(end - begin));
    ZF_RETURN_IF_ERROR(source.Read(entry.name(), shape, std::span(values).subspan(entry.flat_begin() - begin)));
    ++found;
  }
  if (source.Names().size() != found) {
    return absl::DataLossError(absl::StrCat(weights_path, ": holds ", source.Names().size(), " tensors, of which ",
                                            config_path, " explains ", found));
  }
  ZF_ASSIGN_OR_RETURN(const TokenizerFiles tokenizer,
                      base.tokenizer().empty() ? TokenizerFiles() : ReadTokenizerFiles(base_dir));
  DescribeTokenizer(tokenizer, &manifest);
  const optim::OptimizerRow& optimizer = StoredOptimizer(manifest);
  const std::string partial_dir = PartialDirectory(step_dir, manifest.generation());
  ZF_RETURN_IF_ERROR(CreateDirectories(ParentOf(step_dir)));
  ZF_RETURN_IF_ERROR(RemoveCheckpointFiles(partial_dir));  // left by an interrupted import
  const std::vector<float> zeros(values.size());
  std::vector<std::span<const float>> vectors(optimizer.vectors.size(), zeros);
  vectors.front() = values;
  ZF_ASSIGN_OR_RETURN(const model::ModelSpec spec, model::ModelSpec::Create(manifest.config().model()));
  const std::vector<coordinator::PlacedRange> stored = coordinator::PartitionMap(spec.units(), 1).StoredRanges(0);
  absl::StatusOr<v1::ShardFile> shard = WriteShard(partial_dir, 0, stored, optimizer, vectors);
  absl::Status committed = shard.status();
  if (shard.ok()) {
    *manifest.add_files() = *std::move(shard);
    committed = CommitCheckpoint(step_dir, manifest, tokenizer);
  }
  if (!committed.ok()) RemoveCheckpointFiles(partial_dir).IgnoreError();
  return committed;
}

}  // namespace zerofleet::checkpoint
