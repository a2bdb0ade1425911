// A look at manifests, and models compared field by field; see initial_model.h.
#include "cli/config/initial_model.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "cli/config/keys.h"
#include "proto/json.h"
#include "worker/checkpoint/catalog.h"
#include "worker/checkpoint/huggingface_config.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/tokenizer_files.h"
#include "worker/model/foreign.h"
#include "worker/text/tokenizer.h"

namespace zerofleet::cli {
namespace {

constexpr char kKey[] = "init_from", kPreset[] = "preset", kContext[] = "context";
constexpr char kFreeze[] = "freeze", kLora[] = "lora";

// The error for a path that is no step directory, with advice on what to name instead.
absl::Status NoStepDirectory(const ConfigDraft& draft, const std::string& path) {
  const bool gguf = absl::EndsWith(path, ".gguf") && FileExists(path);
  if (!gguf && !IsDirectory(path)) return draft.Error(kKey, absl::StrCat(path, ": no such directory"));
  if (const auto committed = checkpoint::ListCheckpoints(path); committed.ok() && !committed->empty()) {
    return draft.Error(kKey, absl::StrCat(path, " is a directory of checkpoints; name one of them, such as ",
                                          committed->front().path));
  }
  if (gguf || FileExists(JoinPath(path, checkpoint::kHuggingFaceConfigName))) {
    return draft.Error(kKey, absl::StrCat(path, " is a ", gguf ? "GGUF file" : "Hugging Face directory",
                                          "; run `zerofleet checkpoint import ", path,
                                          " imported/step-00000000` and name what that writes"));
  }
  return draft.Error(kKey, absl::StrCat(path, " is no committed checkpoint: it has no ", checkpoint::kManifestName));
}

StoredModel StoredIn(const std::string& path, const v1::CheckpointManifest& manifest) {
  return {path, manifest.config().model(), manifest.tokenizer().empty() ? "" : checkpoint::TokenizerOf(path, manifest)};
}

}  // namespace

absl::Status FindStoredModel(ConfigDraft& draft) {
  const std::string& path = draft.config.init_from();
  if (path.empty()) return absl::OkStatus();
  const std::string& dir = draft.config.checkpoint().dir();
  const absl::StatusOr<std::vector<checkpoint::CommittedCheckpoint>> own =
      checkpoint::ListCheckpoints(dir.empty() ? FindKey("checkpoint.dir")->row->value() : dir);
  if (!own.ok()) return Annotate(own.status(), "checkpoint.dir");
  if (!own->empty()) {
    draft.stored = StoredIn(own->front().path, own->front().manifest);
    // Old checkpoints of the run are deleted in time, so the tokenizer in `path` is preferred.
    const bool lasting = !draft.stored->tokenizer.empty() && FileExists(text::TokenizerPath(path));
    if (lasting) draft.stored->tokenizer = path;
    return absl::OkStatus();
  }
  const absl::StatusOr<bool> there = IsThere(JoinPath(path, checkpoint::kManifestName));
  if (!there.ok()) return Annotate(there.status(), kKey);
  if (!*there) return NoStepDirectory(draft, path);
  const absl::StatusOr<v1::CheckpointManifest> manifest = checkpoint::ReadManifest(path);
  if (!manifest.ok()) return Annotate(manifest.status(), kKey);
  draft.stored = StoredIn(path, *manifest);
  return absl::OkStatus();
}

absl::Status CheckStoredModel(const ConfigDraft& draft) {
  if (!draft.stored) return absl::OkStatus();
  const v1::ModelConfig &stored = draft.stored->model, &model = draft.config.model();
  const nlohmann::ordered_json there = ProtoToJson(stored), here = ProtoToJson(model);
  const bool modules = model::IsForeign(stored) && model::IsForeign(model);
  for (const auto& [field, value] : there.items()) {
    // Which parameters are trained is this run's own choice.
    if (field == kFreeze || (field == kLora && value.is_null())) continue;
    const bool shorter = field == kContext && model.context() < stored.context();
    if (field == kPreset || value == here[field] || shorter) continue;
    if (modules && (field == "torch" || field == "foreign")) continue;  // compared below
    return draft.Error(absl::StrCat("model.", field),
                       absl::StrCat("is ", DumpJson(here[field]), ", and ", DumpJson(value), " in ", draft.stored->path,
                                    ", from which the run starts; leave it out"));
  }
  if (!modules || !model.has_foreign()) return absl::OkStatus();
  v1::ForeignModel as_stored = model.foreign();
  model::FreezeAs(stored.foreign(), as_stored);
  const std::string difference = model::DifferenceOf(stored.foreign(), as_stored);
  if (!difference.empty()) {
    return draft.Error("model.torch", absl::StrCat("is another module than in ", draft.stored->path,
                                                   ", from which the run starts: ", difference));
  }
  return absl::OkStatus();
}

}  // namespace zerofleet::cli
