// Imports a Hugging Face directory or a GGUF file as a committed checkpoint at step 0; see huggingface.h.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file.h"
#include "base/status.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/commit.h"
#include "worker/checkpoint/gguf_source.h"
#include "worker/checkpoint/huggingface.h"
#include "worker/checkpoint/huggingface_config.h"
#include "worker/checkpoint/huggingface_source.h"
#include "worker/checkpoint/huggingface_tensor.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/shard_writer.h"
#include "worker/checkpoint/step_name.h"
#include "worker/checkpoint/tokenizer_files.h"
#include "worker/model/families.h"
#include "worker/model/foreign.h"
#include "worker/model/spec.h"
#include "worker/text/tokenizer.h"

namespace zerofleet::checkpoint {
namespace {

constexpr char kHeadName[] = "lm_head.weight";

// Checks that every tensor of the source has a place in the model, and that a tied head equals the token embedding.
absl::Status CheckNothingLost(const WeightSource& source, const std::string& hf_dir, const model::ModelFamily& family,
                              bool tied, const model::ModelSpec& spec) {
  std::set<std::string> known;
  if (tied) known.insert(kHeadName);
  for (const model::TensorSpec& tensor : spec.tensors()) known.insert(SourceName(family.hugging_face, tensor));
  for (const std::string& name : source.Names()) {
    if (!known.contains(name)) return absl::DataLossError(absl::StrCat(hf_dir, ": unknown tensor '", name, "'"));
  }
  if (!tied || !source.Has(kHeadName)) return absl::OkStatus();
  const std::string embedding_name = absl::StrCat(family.rows.embedding.tokens, ".weight");
  for (const model::TensorSpec& tensor : spec.tensors()) {
    if (SourceName(family.hugging_face, tensor) != embedding_name) continue;
    std::vector<float> head(tensor.elements()), embedding(tensor.elements());
    ZF_RETURN_IF_ERROR(source.Read(kHeadName, tensor.shape, head));
    ZF_RETURN_IF_ERROR(source.Read(embedding_name, tensor.shape, embedding));
    if (std::memcmp(head.data(), embedding.data(), head.size() * sizeof(float)) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(hf_dir, ": ", kHeadName, " differs from ", embedding_name, "; the model has a tied head"));
    }
  }
  return absl::OkStatus();
}

// What an import has found, in either kind of source.
struct Found {
  v1::ModelConfig model;
  const model::ModelFamily* family = nullptr;  // null: a PyTorch module
  std::string facts;                           // the file that has the sizes, for errors
  std::unique_ptr<WeightSource> source;
  TokenizerFiles tokenizer;
};

absl::StatusOr<Found> FindInDirectory(const std::string& hf_dir) {
  Found found;
  found.facts = JoinPath(hf_dir, kHuggingFaceConfigName);
  ZF_ASSIGN_OR_RETURN(found.model, ReadHuggingFaceModel(hf_dir));
  ZF_ASSIGN_OR_RETURN(found.family, model::FindModelFamily(found.model.family()));
  ZF_ASSIGN_OR_RETURN(HuggingFaceSource source, HuggingFaceSource::Open(hf_dir, found.family->hugging_face));
  found.source = std::make_unique<HuggingFaceSource>(std::move(source));
  ZF_ASSIGN_OR_RETURN(const bool there, IsThere(text::TokenizerPath(hf_dir)));
  if (there) {
    ZF_ASSIGN_OR_RETURN(found.tokenizer, ReadTokenizerFiles(hf_dir));
  }
  return found;
}

// A module's names are those of its state_dict already.
constexpr model::HuggingFaceFormat kModuleFormat = {};

const model::HuggingFaceFormat& FormatOf(const Found& found) {
  return found.family == nullptr ? kModuleFormat : found.family->hugging_face;
}

absl::StatusOr<Found> FindOfModule(const std::string& directory, const v1::ModelConfig& model) {
  Found found;
  found.facts = absl::StrCat("model.torch ", model.torch());
  found.model = model;
  ZF_ASSIGN_OR_RETURN(HuggingFaceSource source, HuggingFaceSource::Open(directory, kModuleFormat));
  found.source = std::make_unique<HuggingFaceSource>(std::move(source));
  return found;
}

// Checks that every name in the source is a parameter's, another name of one, or a buffer's.
absl::Status CheckNothingLost(const WeightSource& source, const std::string& directory, const v1::ForeignModel& foreign,
                              const model::ModelSpec& spec) {
  std::set<std::string> known(foreign.buffers().begin(), foreign.buffers().end());
  for (const model::TensorSpec& tensor : spec.tensors()) known.insert(tensor.name);
  for (const v1::ForeignAlias& alias : foreign.aliases()) known.insert(alias.name());
  for (const std::string& name : source.Names()) {
    if (known.contains(name)) continue;
    return absl::DataLossError(absl::StrCat(directory, ": tensor '", name, "' is none of the module's"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Found> FindInGguf(const std::string& path) {
  Found found;
  found.facts = path;
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<GgufSource> source, GgufSource::Open(path));
  found.model = source->model();
  ZF_ASSIGN_OR_RETURN(found.family, model::FindModelFamily(found.model.family()));
  ZF_ASSIGN_OR_RETURN(found.tokenizer, source->Tokenizer());
  found.source = std::move(source);
  return found;
}

// Enters the tokenizer that the files make into the configuration of the checkpoint that carries them.
absl::Status NameTokenizer(const Found& found, const std::string& step_dir, v1::DataConfig* data) {
  if (found.tokenizer.empty()) return absl::OkStatus();
  std::string config;
  for (const TokenizerFile& file : found.tokenizer) {
    if (file.name == text::kTokenizerConfigFile) config = file.contents;
  }
  const TokenizerFile& made_of = found.tokenizer.front();
  const auto tokenizer = text::Tokenizer::Parse(made_of.name, made_of.contents, config);
  if (!tokenizer.ok()) return Annotate(tokenizer.status(), absl::StrCat("the tokenizer of ", found.facts));
  data->set_tokenizer(step_dir);
  data->set_tokenizer_digest((*tokenizer)->digest());
  return absl::OkStatus();
}

// The pieces of an import's only shard, a tensor at a time: the weights, then zeros for every other state.
class ImportPieces {
 public:
  ImportPieces(const Found& found, const model::ModelSpec& spec, const optim::OptimizerRow& optimizer)
      : found_(found), spec_(spec), zeros_left_(ZeroBytes(spec, optimizer)) {}

  absl::StatusOr<std::span<const std::byte>> Next() {
    if (tensor_ < spec_.tensors().size()) {
      const model::TensorSpec& tensor = spec_.tensors()[tensor_++];
      values_.resize(static_cast<size_t>(tensor.elements()));
      ZF_RETURN_IF_ERROR(
          ReadSourceTensor(*found_.source, SourceName(FormatOf(found_), tensor), FormatOf(found_), tensor, values_));
      return std::as_bytes(std::span<const float>(values_));
    }
    while (vector_ < zeros_left_.size() && zeros_left_[vector_] == 0) ++vector_;
    if (vector_ == zeros_left_.size()) return std::span<const std::byte>();
    static constexpr std::array<std::byte, 1 << 20> kZeros = {};
    const int64_t bytes = std::min(zeros_left_[vector_], static_cast<int64_t>(kZeros.size()));
    zeros_left_[vector_] -= bytes;
    return std::span(kZeros).first(static_cast<size_t>(bytes));
  }

 private:
  static std::vector<int64_t> ZeroBytes(const model::ModelSpec& spec, const optim::OptimizerRow& optimizer) {
    std::vector<int64_t> bytes;
    for (const optim::OptimizerVector& vector : optimizer.vectors) {
      bytes.push_back(spec.parameters() * device::DTypeBytes(vector.dtype));
    }
    bytes.front() = 0;  // the weights
    return bytes;
  }

  const Found& found_;
  const model::ModelSpec& spec_;
  size_t tensor_ = 0, vector_ = 0;
  std::vector<float> values_;
  std::vector<int64_t> zeros_left_;  // bytes left of each vector
};

v1::CheckpointManifest ImportedManifest(const v1::Config& config, const model::ModelSpec& spec,
                                        const ImportStamp& stamp) {
  v1::CheckpointManifest manifest;
  manifest.set_format_version(FormatVersionOf(config));
  *manifest.mutable_config() = config;
  for (const model::TensorSpec& tensor : spec.tensors()) {
    v1::TensorEntry* entry = manifest.add_tensors();
    entry->set_name(tensor.name);
    entry->set_dtype(kStoredDType);
    entry->mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
    entry->set_flat_begin(tensor.flat_begin);
    entry->set_flat_end(tensor.flat_end);
  }
  manifest.mutable_data_cursor()->set_samples_consumed(0);
  manifest.mutable_loss_scale()->set_scale(1);
  manifest.mutable_random()->set_seed(config.seed());
  manifest.set_world_size(1);
  manifest.set_zero_stage(config.parallel().zero_stage());
  manifest.set_writer_version(stamp.writer_version);
  manifest.set_committed_unix_seconds(stamp.committed_unix_seconds);
  return manifest;
}

}  // namespace

absl::Status ImportModel(const std::string& from, const std::string& step_dir, const v1::Config& defaults,
                         const ImportStamp& stamp) {
  const bool foreign = model::IsForeign(defaults.model());
  if (StepOfDirectory(step_dir) > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(step_dir,
                     ": an import is a checkpoint of step 0, and this is the name of another step's directory; "
                     "use ",
                     StepDirectory(ParentOf(step_dir), 0)));
  }
  ZF_ASSIGN_OR_RETURN(const Found found, foreign             ? FindOfModule(from, defaults.model())
                                         : IsDirectory(from) ? FindInDirectory(from)
                                                             : FindInGguf(from));
  const WeightSource& source = *found.source;
  const model::HuggingFaceFormat& format = FormatOf(found);
  v1::Config config = defaults;
  *config.mutable_model() = found.model;
  if (foreign) model::FreezeAs({}, *config.mutable_model()->mutable_foreign());  // all weights are stored
  absl::StatusOr<model::ModelSpec> spec = model::ModelSpec::Create(config.model());
  if (!spec.ok()) return Annotate(spec.status(), found.facts);
  ZF_RETURN_IF_ERROR(NameTokenizer(found, step_dir, config.mutable_data()));

  // Every tensor is checked against its file before memory is allocated by the sizes in config.json.
  for (const model::TensorSpec& tensor : spec->tensors()) {
    ZF_RETURN_IF_ERROR(source.Check(SourceName(format, tensor), SourceShape(format, tensor)));
  }
  ZF_RETURN_IF_ERROR(foreign ? CheckNothingLost(source, from, config.model().foreign(), *spec)
                             : CheckNothingLost(source, from, *found.family,
                                                found.family->rows.head.Tied(model::Sizes(config.model())), *spec));

  v1::CheckpointManifest manifest = ImportedManifest(config, *spec, stamp);
  DescribeTokenizer(found.tokenizer, &manifest);
  const optim::OptimizerRow& optimizer = StoredOptimizer(manifest);
  const std::vector<coordinator::PlacedRange> everything = {{0, spec->parameters(), 0}};
  const std::string partial_dir = PartialDirectory(step_dir, manifest.generation());
  ZF_RETURN_IF_ERROR(CreateDirectories(ParentOf(step_dir)));
  ZF_RETURN_IF_ERROR(RemoveCheckpointFiles(partial_dir));  // left by an interrupted import
  ImportPieces pieces(found, *spec, optimizer);
  absl::StatusOr<v1::ShardFile> shard =
      WriteShard(partial_dir, 0, everything, optimizer, [&pieces] { return pieces.Next(); });
  absl::Status committed = shard.status();
  if (shard.ok()) {
    *manifest.add_files() = *std::move(shard);
    committed = CommitCheckpoint(step_dir, manifest, found.tokenizer);
  }
  if (!committed.ok()) RemoveCheckpointFiles(partial_dir).IgnoreError();
  return committed;
}

}  // namespace zerofleet::checkpoint
