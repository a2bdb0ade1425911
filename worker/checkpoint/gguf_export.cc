// Facts, names and places of a GGUF file; see gguf_export.h.
#include "worker/checkpoint/gguf_export.h"
#include "worker/checkpoint/merged_adapters.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "base/units.h"
#include "worker/checkpoint/gguf.h"
#include "worker/checkpoint/gguf_names.h"
#include "worker/checkpoint/gguf_rotary.h"
#include "worker/checkpoint/gguf_tokenizer.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/tokenizer_files.h"
#include "worker/checkpoint/weight_file.h"
#include "worker/model/families.h"
#include "worker/model/foreign.h"
#include "worker/model/sizes.h"
#include "worker/text/tokenizer.h"

namespace zerofleet::checkpoint {
namespace {

// The value of general.architecture, which follows from what the model has beyond a plain Llama.
std::string ArchitectureOf(const v1::ModelConfig& model) {
  if (model.qk_norm()) return "qwen3";
  return model.qkv_bias() ? "qwen2" : "llama";
}

GgufFacts FactsOfModel(const model::ModelFamily& family, const v1::CheckpointManifest& manifest, device::DType dtype) {
  const v1::ModelConfig& model = manifest.config().model();
  const std::string kind = ArchitectureOf(model);
  const model::Sizes sizes(model);
  const auto number = [](int64_t value) { return static_cast<uint32_t>(value); };
  const auto key = [&](const char* name) { return absl::StrCat(kind, ".", name); };
  // general.file_type is the type of most tensors, in llama.cpp's numbering.
  const uint32_t file_type = dtype == device::DType::kF32 ? 0 : dtype == device::DType::kF16 ? 1 : 32;
  GgufFacts facts = {{"general.architecture", kind},
                     {"general.name", absl::StrCat("zerofleet step ", manifest.step())},
                     {"general.file_type", file_type},
                     {"general.alignment", number(kGgufAlignment)},
                     {key("block_count"), number(sizes.layers)},
                     {key("context_length"), number(sizes.context)},
                     {key("embedding_length"), number(sizes.hidden)},
                     {key("feed_forward_length"), number(sizes.intermediate)},
                     {key("attention.head_count"), number(sizes.heads)},
                     {key("attention.head_count_kv"), number(sizes.kv_heads)},
                     {key("attention.key_length"), number(sizes.head_size)},
                     {key("attention.value_length"), number(sizes.head_size)},
                     {key("attention.layer_norm_rms_epsilon"), family.rows.Epsilon(sizes)},
                     {key("rope.dimension_count"), number(sizes.head_size)},
                     {key("rope.freq_base"), static_cast<float>(model.rope_theta())},
                     {key("vocab_size"), number(sizes.vocab)}};
  if (model.rope_scaling().type() == "linear") {
    facts.emplace_back(key("rope.scaling.type"), std::string("linear"));
    facts.emplace_back(key("rope.scaling.factor"), static_cast<float>(model.rope_scaling().factor()));
  }
  return facts;
}

// The places of the tensors, in the checkpoint's order, each at the next aligned place.
class GgufLayout {
 public:
  GgufLayout(const model::ModelFamily& family, const v1::CheckpointManifest& manifest, device::DType dtype)
      : divisors_(FrequencyDivisors(manifest.config().model())) {
    if (!divisors_.empty()) {
      Place(kFrequencyDivisors, {static_cast<int64_t>(divisors_.size())}, device::DType::kF32);
    }
    const v1::ModelConfig& model = manifest.config().model();
    for (const v1::TensorEntry& entry : manifest.tensors()) Add(family, model, entry, dtype);
  }

  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  int64_t data_bytes() const { return next_; }
  // Returns the weights' places behind `header`, to which it appends the data that are not in the checkpoint.
  std::vector<PlacedWeight> Behind(std::string* header) const {
    std::vector<PlacedWeight> weights = weights_;
    for (PlacedWeight& weight : weights) weight.at += static_cast<int64_t>(header->size());
    header->append(reinterpret_cast<const char*>(divisors_.data()), divisors_.size() * sizeof(float));
    return weights;
  }

 private:
  void Add(const model::ModelFamily& family, const v1::ModelConfig& model, const v1::TensorEntry& entry,
           device::DType dtype) {
    if (IsAdapter(entry.name())) return;  // merged into its weight
    std::string name = entry.name();
    if (name.starts_with(family.hugging_face.prefix)) name.erase(0, family.hugging_face.prefix.size());
    const std::vector<int64_t> shape(entry.shape().begin(), entry.shape().end());
    // llama.cpp adds norms and biases in fp32.
    const device::DType stored = shape.size() == 1 ? device::DType::kF32 : dtype;
    const bool interleaved =
        ArchitectureOf(model) == "llama" && (absl::StrContains(name, "q_proj") || absl::StrContains(name, "k_proj"));
    weights_.push_back({.name = entry.name(),
                        .flat_begin = entry.flat_begin(),
                        .flat_end = entry.flat_end(),
                        .columns = shape.back(),
                        .dtype = stored,
                        .order = interleaved ? ElementOrder::kInterleaved : ElementOrder::kOurs,
                        .head_size = model::Sizes(model).head_size,
                        .at = next_});
    Place(NameForGguf(name), shape, stored);
  }

  void Place(std::string name, const std::vector<int64_t>& shape, device::DType dtype) {
    int64_t bytes = device::DTypeBytes(dtype);
    for (const int64_t size : shape) bytes *= size;
    tensors_.push_back({std::move(name), shape, GgufTypeOf(dtype), next_, next_ + bytes});
    next_ += RoundUp(bytes, kGgufAlignment);
  }

  const std::vector<float> divisors_;
  std::vector<GgufTensor> tensors_;
  std::vector<PlacedWeight> weights_;
  int64_t next_ = 0;
};

absl::StatusOr<GgufFacts> FactsOf(const std::string& step_dir, const model::ModelFamily& family,
                                  const v1::CheckpointManifest& manifest, device::DType dtype) {
  GgufFacts facts = FactsOfModel(family, manifest, dtype);
  GgufFacts tokenizer = {{"tokenizer.ggml.model", std::string("no_vocab")}};
  if (!manifest.tokenizer().empty()) {
    ZF_RETURN_IF_ERROR(VerifyTokenizerFiles(step_dir, manifest));
    ZF_RETURN_IF_ERROR(text::Tokenizer::Load(step_dir).status());
    ZF_ASSIGN_OR_RETURN(const TokenizerFiles files, ReadTokenizerFiles(step_dir));
    absl::StatusOr<GgufFacts> of_files = FactsOfTokenizer(files, manifest.config().model().vocab());
    if (!of_files.ok()) return Annotate(of_files.status(), step_dir);
    tokenizer = *std::move(of_files);
  }
  facts.insert(facts.end(), tokenizer.begin(), tokenizer.end());
  return facts;
}

}  // namespace

absl::Status ExportGguf(const std::string& step_dir, const std::string& path, device::DType dtype, WeightsOf which) {
  ZF_ASSIGN_OR_RETURN(const v1::CheckpointManifest manifest, ReadManifest(step_dir));
  if (model::IsForeign(manifest.config().model())) {
    return absl::InvalidArgumentError(
        absl::StrCat(step_dir, ": its model is a PyTorch module, and GGUF files are written of llama alone"));
  }
  ZF_ASSIGN_OR_RETURN(const model::ModelFamily* family, model::FindModelFamily(manifest.config().model().family()));
  if (!family->rotary()) {
    return absl::InvalidArgumentError(
        absl::StrCat(step_dir, ": its model is ", family->name, ", and GGUF files are written of llama alone"));
  }
  ZF_ASSIGN_OR_RETURN(const bool there, IsThere(path));
  if (there) return absl::FailedPreconditionError(absl::StrCat(path, ": already exists and is not overwritten"));
  ZF_ASSIGN_OR_RETURN(const GgufFacts facts, FactsOf(step_dir, *family, manifest, dtype));
  const GgufLayout layout(*family, manifest, dtype);
  std::string header = EncodeGgufHeader(facts, layout.tensors());
  const int64_t bytes = static_cast<int64_t>(header.size()) + layout.data_bytes();
  const std::vector<PlacedWeight> weights = layout.Behind(&header);
  ZF_RETURN_IF_ERROR(CreateDirectories(ParentOf(path)));
  return WriteWeightFile(path, header, bytes, weights, step_dir, manifest, which);
}

}  // namespace zerofleet::checkpoint
