// A Hugging Face directory as a committed checkpoint at step 0; see huggingface.h.
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
#include "worker/checkpoint/huggingface.h"
#include "worker/checkpoint/huggingface_config.h"
#include "worker/checkpoint/huggingface_source.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/shard_writer.h"
#include "worker/checkpoint/step_name.h"
#include "worker/checkpoint/tokenizer_files.h"
#include "worker/checkpoint/transpose.h"
#include "worker/model/families.h"
#include "worker/model/spec.h"
#include "worker/text/tokenizer.h"

namespace zerofleet::checkpoint {
namespace {

constexpr int64_t kMaxConfigBytes = int64_t{1} << 20;
constexpr char kHeadName[] = "lm_head.weight";

// A tensor's name in a source, where none has the prefix.
std::string SourceName(const model::HuggingFaceFormat& format, const model::TensorSpec& tensor) {
  return tensor.name.starts_with(format.prefix) ? tensor.name.substr(format.prefix.size()) : tensor.name;
}

absl::StatusOr<v1::ModelConfig> ReadConfig(const std::string& hf_dir) {
  const std::string path = JoinPath(hf_dir, kHuggingFaceConfigName);
  ZF_ASSIGN_OR_RETURN(std::string text, ReadSmallFile(path, kMaxConfigBytes));
  absl::StatusOr<v1::ModelConfig> model = ParseHuggingFaceConfig(text);
  if (!model.ok()) return Annotate(model.status(), path);
  return model;
}

bool IsTransposed(const model::HuggingFaceFormat& format, const model::TensorSpec& tensor) {
  return format.transposes_products && tensor.projects;
}

std::vector<int64_t> SourceShape(const model::HuggingFaceFormat& format, const model::TensorSpec& tensor) {
  if (!IsTransposed(format, tensor)) return tensor.shape;
  return {tensor.shape[1], tensor.shape[0]};
}

absl::Status ReadTensor(const HuggingFaceSource& source, const model::HuggingFaceFormat& format,
                        const model::TensorSpec& tensor, std::span<float> into) {
  const std::string name = SourceName(format, tensor);
  const std::vector<int64_t> shape = SourceShape(format, tensor);
  if (!IsTransposed(format, tensor)) return source.Read(name, shape, into);
  std::vector<float> turned(into.size());
  ZF_RETURN_IF_ERROR(source.Read(name, shape, turned));
  Transpose(turned, tensor.shape[1], tensor.shape[0], into);
  return absl::OkStatus();
}

// Every tensor of the source must have found its place; a tied head must be the token embedding again.
absl::Status CheckNothingLost(const HuggingFaceSource& source, const std::string& hf_dir,
                              const model::ModelFamily& family, bool tied, const model::ModelSpec& spec) {
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

// The tokenizer in the directory, if it has one, and its digest for the configuration.
absl::StatusOr<TokenizerFiles> ReadTokenizer(const std::string& hf_dir, v1::Config* config) {
  ZF_ASSIGN_OR_RETURN(const bool there, IsThere(JoinPath(hf_dir, text::kTokenizerFile)));
  if (!there) return TokenizerFiles();
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<text::Tokenizer> tokenizer, text::Tokenizer::Load(hf_dir));
  config->mutable_data()->set_tokenizer(hf_dir);
  config->mutable_data()->set_tokenizer_digest(tokenizer->digest());
  return ReadTokenizerFiles(hf_dir);
}

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

absl::Status ImportHuggingFace(const std::string& hf_dir, const std::string& step_dir, const v1::Config& defaults,
                               const ImportStamp& stamp) {
  if (StepOfDirectory(step_dir) > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(step_dir,
                     ": an import is a checkpoint of step 0, and this is the name of another step's directory; "
                     "use ",
                     StepDirectory(ParentOf(step_dir), 0)));
  }
  v1::Config config = defaults;
  ZF_ASSIGN_OR_RETURN(*config.mutable_model(), ReadConfig(hf_dir));
  absl::StatusOr<model::ModelSpec> spec = model::ModelSpec::Create(config.model());
  if (!spec.ok()) return Annotate(spec.status(), JoinPath(hf_dir, kHuggingFaceConfigName));
  ZF_ASSIGN_OR_RETURN(const model::ModelFamily* family, model::FindModelFamily(config.model().family()));
  const model::HuggingFaceFormat& format = family->hugging_face;
  ZF_ASSIGN_OR_RETURN(HuggingFaceSource source, HuggingFaceSource::Open(hf_dir, format));

  // Every tensor is held against its file before config.json's sizes are trusted with memory.
  for (const model::TensorSpec& tensor : spec->tensors()) {
    ZF_RETURN_IF_ERROR(source.Check(SourceName(format, tensor), SourceShape(format, tensor)));
  }
  std::vector<float> master(spec->parameters());
  for (const model::TensorSpec& tensor : spec->tensors()) {
    std::span<float> into = std::span(master).subspan(tensor.flat_begin, tensor.elements());
    ZF_RETURN_IF_ERROR(ReadTensor(source, format, tensor, into));
  }
  ZF_RETURN_IF_ERROR(
      CheckNothingLost(source, hf_dir, *family, family->rows.head.Tied(model::Sizes(config.model())), *spec));
  ZF_ASSIGN_OR_RETURN(const TokenizerFiles tokenizer, ReadTokenizer(hf_dir, &config));

  const std::vector<float> zeros(master.size());
  v1::CheckpointManifest manifest = ImportedManifest(config, *spec, stamp);
  DescribeTokenizer(tokenizer, &manifest);
  const optim::OptimizerRow& optimizer = StoredOptimizer(manifest);
  std::vector<std::span<const float>> vectors(optimizer.vectors.size(), zeros);
  vectors[0] = master;
  const std::vector<coordinator::PlacedRange> everything = {{0, spec->parameters(), 0}};
  const std::string partial_dir = PartialDirectory(step_dir, manifest.generation());
  ZF_RETURN_IF_ERROR(CreateDirectories(ParentOf(step_dir)));
  ZF_RETURN_IF_ERROR(RemoveCheckpointFiles(partial_dir));  // of an import that was interrupted
  ZF_ASSIGN_OR_RETURN(*manifest.add_files(), WriteShard(partial_dir, 0, everything, optimizer, vectors));
  const absl::Status committed = CommitCheckpoint(step_dir, manifest, tokenizer);
  if (!committed.ok()) RemoveCheckpointFiles(partial_dir).IgnoreError();
  return committed;
}

}  // namespace zerofleet::checkpoint
