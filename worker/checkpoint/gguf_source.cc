// Turns llama.cpp's names, sizes and order of rows into ours; see gguf_source.h.
#include "worker/checkpoint/gguf_source.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status.h"
#include "worker/checkpoint/gguf_names.h"
#include "worker/checkpoint/gguf_rotary.h"
#include "worker/checkpoint/gguf_tokenizer.h"

namespace zerofleet::checkpoint {
namespace {

absl::StatusOr<int64_t> Whole(const GgufFile& file, const std::string& key) {
  ZF_ASSIGN_OR_RETURN(const double value, file.Number(key));
  constexpr double kMost = 1e9;
  if (value >= 1 && value <= kMost && value == std::floor(value)) return static_cast<int64_t>(value);
  return absl::DataLossError(absl::StrCat(key, " is ", value, ", expected a positive integer"));
}

absl::StatusOr<int64_t> WholeOr(const GgufFile& file, const std::string& key, int64_t otherwise) {
  return file.Has(key) ? Whole(file, key) : absl::StatusOr<int64_t>(otherwise);
}

absl::Status GgufNotSupported(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(what, ", which is not supported"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<GgufSource>> GgufSource::Open(const std::string& path) {
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  absl::StatusOr<GgufFile> header = ParseGguf(file->bytes());
  if (!header.ok()) return Annotate(header.status(), path);
  std::unique_ptr<GgufSource> source(new GgufSource(std::move(file), *std::move(header)));
  absl::Status read = source->ReadModel();
  if (read.ok()) read = source->NameTensors();
  if (read.ok()) read = source->ReadScaling();
  if (!read.ok()) return Annotate(read, path);
  return source;
}

absl::Status GgufSource::ReadModel() {
  ZF_ASSIGN_OR_RETURN(const std::string kind, header_.Text("general.architecture"));
  if (kind != "llama" && kind != "qwen2" && kind != "qwen3")
    return GgufNotSupported(absl::StrCat("general.architecture is '", kind, "'"));
  interleaves_ = kind == "llama";
  const auto key = [&](const char* name) { return absl::StrCat(kind, ".", name); };
  model_.set_family("llama");
  model_.set_qkv_bias(kind == "qwen2");
  model_.set_qk_norm(kind == "qwen3");
  ZF_ASSIGN_OR_RETURN(const int64_t layers, Whole(header_, key("block_count")));
  ZF_ASSIGN_OR_RETURN(const int64_t hidden, Whole(header_, key("embedding_length")));
  ZF_ASSIGN_OR_RETURN(const int64_t heads, Whole(header_, key("attention.head_count")));
  ZF_ASSIGN_OR_RETURN(const int64_t kv_heads, WholeOr(header_, key("attention.head_count_kv"), heads));
  ZF_ASSIGN_OR_RETURN(const int64_t head_size, WholeOr(header_, key("attention.key_length"), hidden / heads));
  ZF_ASSIGN_OR_RETURN(const int64_t intermediate, Whole(header_, key("feed_forward_length")));
  ZF_ASSIGN_OR_RETURN(const int64_t context, Whole(header_, key("context_length")));
  ZF_ASSIGN_OR_RETURN(const double epsilon, header_.Number(key("attention.layer_norm_rms_epsilon")));
  ZF_ASSIGN_OR_RETURN(const int64_t rotated, WholeOr(header_, key("rope.dimension_count"), head_size));
  if (rotated != head_size) return GgufNotSupported(absl::StrCat(key("rope.dimension_count"), " is ", rotated));
  for (const char* other : {"expert_count", "attention.sliding_window", "rope.scaling.attn_factor"}) {
    if (!header_.Has(key(other))) continue;
    ZF_ASSIGN_OR_RETURN(const double value, header_.Number(key(other)));
    const bool harmless = value == 0 || (std::string_view(other) == "attention.sliding_window" && value >= context);
    if (!harmless) return GgufNotSupported(absl::StrCat(key(other), " is ", value));
  }
  double theta = 1e4;
  if (header_.Has(key("rope.freq_base"))) {
    ZF_ASSIGN_OR_RETURN(theta, header_.Number(key("rope.freq_base")));
  }
  if (!(theta >= 1) || !(epsilon > 0 && epsilon < 1)) {
    return absl::DataLossError(absl::StrCat("rope.freq_base is ", theta, " and the norms' epsilon ", epsilon));
  }
  model_.mutable_rope_scaling()->set_type("none");
  if (header_.Has(key("rope.scaling.type"))) {
    ZF_ASSIGN_OR_RETURN(const std::string scaling, header_.Text(key("rope.scaling.type")));
    if (scaling == "linear") {
      ZF_ASSIGN_OR_RETURN(const double factor, header_.Number(key("rope.scaling.factor")));
      if (!(factor >= 1 && factor <= 1e6)) return absl::DataLossError(absl::StrCat("rope.scaling.factor is ", factor));
      model_.mutable_rope_scaling()->set_type(scaling);
      model_.mutable_rope_scaling()->set_factor(factor);
    } else if (scaling != "none") {
      return GgufNotSupported(absl::StrCat(key("rope.scaling.type"), " is '", scaling, "'"));
    }
  }
  model_.set_layers(layers);
  model_.set_hidden(hidden);
  model_.set_heads(heads);
  model_.set_kv_heads(kv_heads);
  model_.set_head_size(head_size);
  model_.set_intermediate(intermediate);
  model_.set_context(context);
  // Epsilon is stored as fp32; the number meant is the shortest one that rounds to it.
  double shortest = epsilon;
  if (absl::SimpleAtod(absl::StrCat(static_cast<float>(epsilon)), &shortest)) model_.set_norm_epsilon(shortest);
  model_.set_rope_theta(theta);
  return absl::OkStatus();
}

absl::Status GgufSource::NameTensors() {
  for (const GgufTensor& tensor : header_.tensors) tensors_.emplace(NameFromGguf(tensor.name), &tensor);
  if (tensors_.size() != header_.tensors.size()) return absl::DataLossError("two tensors have one name");
  model_.set_tied(!Has("lm_head.weight"));
  const auto embedding = tensors_.find("embed_tokens.weight");
  if (embedding == tensors_.end()) return absl::DataLossError("no tensor 'token_embd.weight'");
  model_.set_vocab(embedding->second->shape.front());
  return absl::OkStatus();
}

absl::Status GgufSource::ReadScaling() {
  if (!Has(kFrequencyDivisors)) return absl::OkStatus();
  if (model_.rope_scaling().type() != "none") {
    return GgufNotSupported(absl::StrCat("tensor '", kFrequencyDivisors, "' beside rope.scaling.type"));
  }
  const int64_t count = model_.head_size() / 2;
  ZF_RETURN_IF_ERROR(Check(kFrequencyDivisors, {count}));  // the file has this many
  std::vector<float> divisors(static_cast<size_t>(count));
  ZF_RETURN_IF_ERROR(Read(kFrequencyDivisors, {count}, divisors));
  ZF_ASSIGN_OR_RETURN(*model_.mutable_rope_scaling(), ScalingOfDivisors(model_, divisors));
  tensors_.erase(kFrequencyDivisors);
  return absl::OkStatus();
}

absl::StatusOr<TokenizerFiles> GgufSource::Tokenizer() const {
  absl::StatusOr<TokenizerFiles> files = GgufTokenizer(header_);
  return files.ok() ? files : Annotate(files.status(), file_->path());
}

std::vector<std::string> GgufSource::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

absl::Status GgufSource::Check(const std::string& name, const std::vector<int64_t>& shape) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return absl::DataLossError(absl::StrCat(file_->path(), ": no tensor '", name, "'"));
  const GgufTensor& tensor = *found->second;
  const std::string where = absl::StrCat(file_->path(), ": tensor '", tensor.name, "'");
  if (tensor.shape != shape) {
    return absl::DataLossError(absl::StrCat(where, ": shape (", absl::StrJoin(tensor.shape, ", "),
                                            "), the file's facts make it (", absl::StrJoin(shape, ", "), ")"));
  }
  if (tensor.end >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(where, ": ", GgufTypeName(tensor.type),
                                                 ", which is not read; F32, F16, BF16, Q8_0, Q4_0 and Q4_1 are"));
}

absl::Status GgufSource::Read(const std::string& name, const std::vector<int64_t>& shape, std::span<float> into) const {
  ZF_RETURN_IF_ERROR(Check(name, shape));
  const GgufTensor& tensor = *tensors_.at(name);
  ZF_CHECK(GgufBytes(tensor.type, static_cast<int64_t>(into.size())) == tensor.end - tensor.begin);
  const bool turned = interleaves_ && (absl::StrContains(name, "q_proj") || absl::StrContains(name, "k_proj"));
  std::vector<float> rows(turned ? into.size() : 0);
  const std::span<float> read = turned ? std::span(rows) : into;
  DequantizeGguf(tensor.type, file_->bytes().data() + tensor.begin, read);
  // A head's rows come in pairs that are rotated together: its rows 2i and 2i + 1 are our rows i and i + half.
  const int64_t columns = shape.size() > 1 ? shape[1] : 1, head = model_.head_size(), half = head / 2;
  for (int64_t row = 0; turned && row < shape[0]; ++row) {
    const int64_t in_head = row % head, to = row - in_head + in_head / 2 + in_head % 2 * half;
    std::copy_n(rows.begin() + row * columns, columns, into.begin() + to * columns);
  }
  const auto odd = std::find_if_not(into.begin(), into.end(), [](float value) { return std::isfinite(value); });
  if (odd == into.end()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(file_->path(), ": tensor '", tensor.name, "': element ", odd - into.begin(),
                                          " is ", *odd, "; weights must be finite"));
}

}  // namespace zerofleet::checkpoint
