// A committed checkpoint as model.safetensors and config.json; see huggingface.h.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/file.h"
#include "base/status.h"
#include "worker/checkpoint/huggingface.h"
#include "worker/checkpoint/huggingface_config.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/merged_adapters.h"
#include "worker/checkpoint/model_card.h"
#include "worker/checkpoint/tokenizer_files.h"
#include "worker/checkpoint/weight_file.h"
#include "worker/model/families.h"
#include "worker/model/foreign.h"
#include "worker/model/spec.h"
#include "worker/text/tokenizer.h"

namespace zerofleet::checkpoint {
namespace {

// The buffers that are among a module's tensors, by name.
std::map<std::string, v1::ForeignBuffer> BuffersOf(const v1::ForeignModel& foreign) {
  std::map<std::string, v1::ForeignBuffer> buffers;
  for (const v1::ForeignUnit& unit : foreign.units()) {
    for (const v1::ForeignTensor& tensor : unit.tensors()) {
      if (tensor.has_buffer()) buffers[tensor.name()] = tensor.buffer();
    }
  }
  return buffers;
}

// Writes model.safetensors. The tensors of a checkpoint and of the table are the same, in the same order
// (ValidateManifest).
absl::Status WriteSafetensors(const std::string& path, bool transposes, const model::ModelSpec& spec,
                              device::DType dtype, const std::string& step_dir, const v1::CheckpointManifest& manifest,
                              WeightsOf which) {
  ZF_CHECK(manifest.tensors_size() == static_cast<int>(spec.tensors().size()));
  SafetensorsFile file(dtype);
  const v1::ForeignModel& foreign = manifest.config().model().foreign();
  const std::map<std::string, v1::ForeignBuffer> buffers = BuffersOf(foreign);
  for (const v1::TensorEntry& entry : manifest.tensors()) {
    const auto buffer = buffers.find(entry.name());
    if (buffer != buffers.end()) {
      const bool is_stored = std::ranges::find(foreign.buffers(), entry.name()) != foreign.buffers().end();
      if (is_stored) file.AddBuffer(entry, buffer->second);  // PyTorch does not store the others either
      continue;
    }
    if (IsAdapter(entry.name())) continue;  // merged into its weight; adapters come behind all others
    file.Add(entry, entry.name(), transposes && spec.tensors()[file.size()].projects);
  }
  return file.Write(path, step_dir, manifest, which);
}

}  // namespace

absl::Status ExportHuggingFace(const std::string& step_dir, const std::string& out_dir, device::DType dtype,
                               WeightsOf which) {
  ZF_ASSIGN_OR_RETURN(v1::CheckpointManifest manifest, ReadManifest(step_dir));
  const v1::ModelConfig& model = manifest.config().model();
  const bool foreign = model::IsForeign(model);
  const model::ModelFamily* family = nullptr;
  if (!foreign) {
    ZF_ASSIGN_OR_RETURN(family, model::FindModelFamily(model.family()));
  }
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
  const std::string card = JoinPath(out_dir, kModelCardName);
  if (!foreign) targets.push_back(card);
  for (const TokenizerFile& file : tokenizer) targets.push_back(JoinPath(out_dir, file.name));
  for (const std::string& path : targets) {
    ZF_ASSIGN_OR_RETURN(const bool there, IsThere(path));
    if (there) return absl::FailedPreconditionError(absl::StrCat(path, ": already exists and is not overwritten"));
  }
  ZF_ASSIGN_OR_RETURN(const model::ModelSpec spec, model::ModelSpec::Create(model));
  ZF_ASSIGN_OR_RETURN(const bool there, IsThere(out_dir));
  ZF_RETURN_IF_ERROR(CreateDirectories(out_dir));
  const absl::Cleanup tidy = [&] {
    if (!there) RemoveOne(out_dir).IgnoreError();  // it is empty if nothing could be written
  };
  ZF_RETURN_IF_ERROR(WriteSafetensors(weights, !foreign && family->hugging_face.transposes_products, spec, dtype,
                                      step_dir, manifest, which));
  ZF_RETURN_IF_ERROR(WriteTokenizerFiles(out_dir, tokenizer));
  if (foreign) {
    const std::string& text = model.foreign().config_json();
    return text.empty() ? absl::OkStatus() : WriteFileAtomically(config, text);
  }
  ZF_RETURN_IF_ERROR(WriteFileAtomically(card, ModelCardText(manifest, spec, dtype, which)));
  return WriteFileAtomically(config, HuggingFaceConfigText(*family, model, dtype, end_of_text));
}

}  // namespace zerofleet::checkpoint
