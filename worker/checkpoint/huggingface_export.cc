// A committed checkpoint as model.safetensors and config.json; see huggingface.h.
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file.h"
#include "base/status.h"
#include "worker/checkpoint/huggingface.h"
#include "worker/checkpoint/huggingface_config.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/shard_reader.h"
#include "worker/checkpoint/tokenizer_files.h"
#include "worker/checkpoint/transpose.h"
#include "worker/model/families.h"
#include "worker/model/spec.h"
#include "worker/text/tokenizer.h"

namespace zerofleet::checkpoint {
namespace {

// A checkpoint's tensors and the table's are the same, in one order (ValidateManifest).
struct Exported {
  const v1::TensorEntry& entry;
  bool transposed;
};

std::vector<Exported> ExportedOf(const model::ModelFamily& family, const model::ModelSpec& spec,
                                 const v1::CheckpointManifest& manifest) {
  ZF_CHECK(manifest.tensors_size() == static_cast<int>(spec.tensors().size()));
  std::vector<Exported> exported;
  for (const v1::TensorEntry& entry : manifest.tensors()) {
    const bool projects = spec.tensors()[exported.size()].projects;
    exported.push_back({entry, family.hugging_face.transposes_products && projects});
  }
  return exported;
}

std::string Header(const std::vector<Exported>& exported) {
  std::vector<SafetensorsTensor> tensors;
  for (const Exported& one : exported) {
    SafetensorsTensor tensor;
    tensor.name = one.entry.name();
    tensor.dtype = one.entry.dtype();
    tensor.shape.assign(one.entry.shape().begin(), one.entry.shape().end());
    if (one.transposed) std::swap(tensor.shape[0], tensor.shape[1]);
    tensors.push_back(std::move(tensor));
  }
  return EncodeSafetensorsHeader(tensors);
}

absl::Status WriteWeights(const std::string& path, const std::vector<Exported>& exported,
                          std::span<const float> master) {
  ZF_ASSIGN_OR_RETURN(std::unique_ptr<DurableFile> file, DurableFile::Create(path));
  const std::string header = Header(exported);
  ZF_RETURN_IF_ERROR(file->Write(std::as_bytes(std::span(header))));
  std::vector<float> turned;
  for (const auto& [entry, transposed] : exported) {
    std::span<const float> data = master.subspan(entry.flat_begin(), entry.flat_end() - entry.flat_begin());
    if (transposed) {
      turned.resize(data.size());
      Transpose(data, entry.shape(0), entry.shape(1), turned);
      data = turned;
    }
    ZF_RETURN_IF_ERROR(file->Write(std::as_bytes(data)));
  }
  return file->Sync();
}

}  // namespace

absl::Status ExportHuggingFace(const std::string& step_dir, const std::string& out_dir) {
  ZF_ASSIGN_OR_RETURN(v1::CheckpointManifest manifest, ReadManifest(step_dir));
  const v1::ModelConfig& model = manifest.config().model();
  ZF_ASSIGN_OR_RETURN(const model::ModelFamily* family, model::FindModelFamily(model.family()));
  const std::string weights = JoinPath(out_dir, kHuggingFaceWeightsName),
                    config = JoinPath(out_dir, kHuggingFaceConfigName);
  TokenizerFiles tokenizer;
  std::optional<int32_t> end_of_text;
  if (!manifest.tokenizer().empty()) {
    ZF_RETURN_IF_ERROR(VerifyTokenizerFiles(step_dir, manifest));
    ZF_ASSIGN_OR_RETURN(tokenizer, ReadTokenizerFiles(step_dir));
    ZF_ASSIGN_OR_RETURN(const std::unique_ptr<text::Tokenizer> loaded, text::Tokenizer::Load(step_dir));
    end_of_text = loaded->end_of_text();
  }
  std::vector<std::string> targets = {weights, config};
  for (const TokenizerFile& file : tokenizer) targets.push_back(JoinPath(out_dir, file.name));
  for (const std::string& path : targets) {
    ZF_ASSIGN_OR_RETURN(const bool there, IsThere(path));
    if (there) return absl::FailedPreconditionError(absl::StrCat(path, ": already exists and is not overwritten"));
  }
  ZF_RETURN_IF_ERROR(CheckShardLengths(step_dir, manifest));
  const int64_t elements = ManifestElements(manifest);
  std::vector<float> master(elements);
  ZF_RETURN_IF_ERROR(LoadRanges(step_dir, manifest, {{0, elements, 0}}, {master.data()}));
  ZF_RETURN_IF_ERROR(CreateDirectories(out_dir));
  ZF_ASSIGN_OR_RETURN(const model::ModelSpec spec, model::ModelSpec::Create(model));
  const absl::Status written = WriteWeights(weights, ExportedOf(*family, spec, manifest), master);
  if (!written.ok()) {
    RemoveTree(weights).IgnoreError();
    return written;
  }
  ZF_RETURN_IF_ERROR(WriteTokenizerFiles(out_dir, tokenizer));
  return WriteFileAtomically(config, HuggingFaceConfigText(*family, model, end_of_text));
}

}  // namespace zerofleet::checkpoint
