// Compares field by field, and moves ranges tensor by tensor; see same_model.h.
#include "worker/checkpoint/same_model.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "proto/json.h"
#include "worker/model/families.h"
#include "worker/model/foreign.h"

namespace zerofleet::checkpoint {

absl::Status CheckSameModel(const v1::CheckpointManifest& manifest, const v1::ModelConfig& model,
                            const std::string& path) {
  const v1::ModelConfig& stored = manifest.config().model();
  const nlohmann::ordered_json there = ProtoToJson(stored), here = ProtoToJson(model);
  const bool modules = model::IsForeign(stored) && model::IsForeign(model);
  for (const auto& [field, value] : there.items()) {
    if (field == "preset" || field == "context" || value == here[field]) continue;  // a preset is only a name
    if (modules && (field == "torch" || field == "foreign")) continue;              // compared below
    return absl::OutOfRangeError(absl::StrCat("checkpoint ", path, " is of another model: model.", field, " is ",
                                              DumpJson(value), " there and ", DumpJson(here[field]),
                                              " in the configuration"));
  }
  if (modules) {
    const std::string difference = model::DifferenceOf(stored.foreign(), model.foreign());
    if (difference.empty()) return absl::OkStatus();
    return absl::OutOfRangeError(absl::StrCat("checkpoint ", path, " is of another module: ", difference));
  }
  const absl::StatusOr<const model::ModelFamily*> family = model::FindModelFamily(model.family());
  if (family.ok() && !(*family)->position_table()) return absl::OkStatus();
  if (model.context() <= stored.context()) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(
      "checkpoint ", path, " has a context of ", stored.context(), " and model.context is ", model.context(),
      ": its position table has ", stored.context(), " rows; set model.context to ", stored.context(), " or less"));
}

absl::Status CheckBaseModel(const v1::CheckpointManifest& manifest, const v1::ModelConfig& model,
                            const std::string& path) {
  v1::ModelConfig as_stored = model;
  const v1::ModelConfig& stored = manifest.config().model();
  *as_stored.mutable_freeze() = stored.freeze();
  if (!stored.has_lora()) as_stored.clear_lora();
  if (as_stored.has_foreign()) model::FreezeAs(stored.foreign(), *as_stored.mutable_foreign());
  return CheckSameModel(manifest, as_stored, path);
}

absl::Status CheckResumable(const v1::CheckpointManifest& manifest, const v1::Config& config, const std::string& path) {
  ZF_RETURN_IF_ERROR(CheckSameModel(manifest, config.model(), path));
  const std::string& tokenizer = manifest.config().data().tokenizer_digest();
  const std::string& wanted = config.data().tokenizer_digest();
  if (!tokenizer.empty() && !wanted.empty() && tokenizer != wanted) {
    return absl::OutOfRangeError(absl::StrCat("checkpoint ", path, " is of another tokenizer: its digest is ",
                                              tokenizer, " there, and that of data.tokenizer, ",
                                              config.data().tokenizer(), ", is ", wanted,
                                              "; the checkpoint holds its own"));
  }
  const std::string &stored = manifest.config().optimizer().name(), &name = config.optimizer().name();
  if (stored == name || manifest.step() == 0) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("checkpoint ", path, " is of another optimizer: optimizer.name is ", stored,
                                            " there and ", name, " in the configuration"));
}

std::vector<coordinator::PlacedRange> StoredPlaces(const model::ModelSpec& spec, const v1::CheckpointManifest& manifest,
                                                   const std::vector<coordinator::PlacedRange>& wanted) {
  const auto stored = static_cast<size_t>(manifest.tensors_size());
  ZF_CHECK(stored <= spec.tensors().size());
  std::vector<coordinator::PlacedRange> places;
  for (const coordinator::PlacedRange& range : wanted) {
    for (size_t t = 0; t < stored; ++t) {
      const model::TensorSpec& tensor = spec.tensors()[t];
      const v1::TensorEntry& entry = manifest.tensors(static_cast<int>(t));
      const int64_t begin = std::max(range.flat_begin, tensor.flat_begin);
      const int64_t end = std::min(range.flat_end, tensor.flat_end);
      if (begin >= end) continue;
      ZF_CHECK(tensor.elements() <= entry.flat_end() - entry.flat_begin());
      const int64_t moved = entry.flat_begin() - tensor.flat_begin;
      const coordinator::PlacedRange place = {begin + moved, end + moved, range.offset + (begin - range.flat_begin)};
      const bool follows = !places.empty() && places.back().flat_end == place.flat_begin &&
                           places.back().offset + places.back().elements() == place.offset;
      if (follows) places.back().flat_end = place.flat_end;
      if (!follows) places.push_back(place);
    }
  }
  return places;
}

}  // namespace zerofleet::checkpoint
