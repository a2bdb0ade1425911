// Printing and parsing of manifests; see manifest.h.
#include "worker/checkpoint/manifest.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/status.h"
#include "coordinator/ownership.h"
#include "coordinator/placement.h"
#include "proto/json.h"
#include "proto/json_parse.h"
#include "worker/checkpoint/step_name.h"

namespace zerofleet::checkpoint {
namespace {

constexpr int64_t kMaxManifestBytes = int64_t{64} << 20;

constexpr char kVersionKey[] = "format_version", kDigestKey[] = "manifest_xxh3_128", kTeamKey[] = "team";

// The beginning of a text of this version (2 or later), up to the digits of its digest, as DumpJson prints it. A reader
// accepts nothing else, so that no byte before the digits can change unnoticed either.
std::string PrefixOf(int64_t version) {
  return absl::StrCat("{\n \"", kVersionKey, "\": ", version, ",\n \"", kDigestKey, "\": \"");
}

absl::Status CheckOwnDigest(std::string_view text, int64_t version) {
  const std::string prefix = PrefixOf(version);
  if (text.substr(0, prefix.size()) != prefix || text.size() < prefix.size() + kDigestDigits) {
    return absl::DataLossError("damaged: does not begin with its version and its digest");
  }
  const std::string_view stored = text.substr(prefix.size(), kDigestDigits);
  const std::string found = ManifestDigest(text);
  if (stored == found) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("damaged: its XXH3-128 is ", found, ", but it says ", std::string(stored)));
}

}  // namespace

std::string ManifestText(const v1::CheckpointManifest& manifest) {
  const int version = FormatVersionOf(manifest.config());
  nlohmann::ordered_json json = {{kVersionKey, version}, {kDigestKey, std::string(kDigestDigits, '0')}};
  const nlohmann::ordered_json fields = ProtoToJson(manifest);
  for (const auto& [key, value] : fields.items()) {
    if (key != kVersionKey) json[key] = value;
  }
  std::string text = DumpJson(json, 1) + "\n";
  const std::string prefix = PrefixOf(version);
  ZF_CHECK(text.compare(0, prefix.size(), prefix) == 0);
  return text.replace(prefix.size(), kDigestDigits, Digest128(text));
}

absl::StatusOr<v1::CheckpointManifest> ParseManifest(std::string_view text) {
  absl::StatusOr<nlohmann::json> json = ParseJson(text);
  if (!json.ok()) return absl::DataLossError(std::string(json.status().message()));
  // The version is checked first: a later one may have keys that this program does not know.
  const bool has_version = json->is_object() && json->contains(kVersionKey) && (*json)[kVersionKey].is_number_integer();
  const int64_t version = has_version ? (*json)[kVersionKey].get<int64_t>() : 0;
  ZF_RETURN_IF_ERROR(CheckManifestVersion(version));
  if (version >= 2) {
    ZF_RETURN_IF_ERROR(CheckOwnDigest(text, version));
    json->erase(kDigestKey);  // belongs to the file, not to the message
  }
  if (version < 3) {
    if (json->contains(kTeamKey)) return absl::DataLossError(absl::StrCat(kTeamKey, ": unknown key"));
    (*json)[kTeamKey] = 0;
  }
  v1::CheckpointManifest manifest;
  absl::Status filled = ParsedJsonToProto(*json, &manifest);
  // Configurations get new keys with each release; an absent key has its default, which is checked. An import, or an
  // older release, does not have the other keys below.
  const std::set<std::string> newer = {"config",        "data", "tokenizer", "environment",
                                       "base_xxh3_128", "best", "receipt"};
  if (filled.ok()) filled = CheckEveryKeyPresent(*json, *manifest.GetDescriptor(), newer);
  if (!filled.ok()) return absl::DataLossError(std::string(filled.message()));
  if (version < 3 && manifest.generation() > 0) manifest.set_team(coordinator::kMostRanks);
  ZF_RETURN_IF_ERROR(ValidateManifest(manifest));
  return manifest;
}

std::string ManifestDigest(std::string_view text) {
  std::string zeroed(text);
  for (int64_t version = 2; version <= kManifestFormatVersion; ++version) {
    const std::string prefix = PrefixOf(version);
    if (!text.starts_with(prefix) || text.size() < prefix.size() + kDigestDigits) continue;
    zeroed.replace(prefix.size(), kDigestDigits, kDigestDigits, '0');
  }
  return Digest128(zeroed);
}

absl::StatusOr<v1::CheckpointManifest> ReadManifest(const std::string& step_dir, std::string* digest) {
  const std::string path = JoinPath(step_dir, kManifestName);
  ZF_ASSIGN_OR_RETURN(const bool there, IsThere(path));
  if (!there) {
    return absl::NotFoundError(absl::StrCat(step_dir, ": no ", kManifestName, ": not a committed checkpoint"));
  }
  ZF_ASSIGN_OR_RETURN(std::string text, ReadSmallFile(path, kMaxManifestBytes));
  absl::StatusOr<v1::CheckpointManifest> manifest = ParseManifest(text);
  if (!manifest.ok()) return Annotate(manifest.status(), path);
  const int64_t named = StepOfDirectory(step_dir);
  if (named >= 0 && named != manifest->step()) {
    return absl::DataLossError(absl::StrCat(path, ": is of step ", manifest->step(),
                                            ", but its directory is named for ", named,
                                            ": another checkpoint was copied or renamed there"));
  }
  if (digest != nullptr) *digest = ManifestDigest(text);
  return manifest;
}

absl::StatusOr<v1::CheckpointManifest> ReadManifest(const std::string& step_dir, const ManifestIdentity& committed) {
  std::string digest;
  ZF_ASSIGN_OR_RETURN(v1::CheckpointManifest manifest, ReadManifest(step_dir, &digest));
  const bool same_digest = committed.digest.empty() || digest == committed.digest;
  if (manifest.step() == committed.step && same_digest) return manifest;
  return absl::DataLossError(
      absl::StrCat(JoinPath(step_dir, kManifestName), ": another checkpoint was put there since: ", "it is of step ",
                   manifest.step(), " with XXH3-128 ", digest, ", what was committed is of step ", committed.step,
                   committed.digest.empty() ? "" : " with ", committed.digest));
}

const optim::OptimizerRow& StoredOptimizer(const v1::CheckpointManifest& manifest) {
  const absl::StatusOr<const optim::OptimizerRow*> row = optim::OptimizerOf(manifest.config());
  ZF_CHECK(row.ok());
  return **row;
}

int FormatVersionOf(const v1::Config& config) {
  constexpr int kWholeModels = 3;
  return config.parallel().tensor() > 1 ? kManifestFormatVersion : kWholeModels;
}

model::ModelPart PartOf(const v1::CheckpointManifest& manifest, int rank) {
  const int parts = std::max(1, static_cast<int>(manifest.config().parallel().tensor()));
  return {.index = rank % parts, .count = parts};
}

int64_t ManifestElements(const v1::CheckpointManifest& manifest) {
  return manifest.tensors().empty() ? 0 : manifest.tensors(manifest.tensors_size() - 1).flat_end();
}

std::vector<coordinator::PlacedRange> StoredRanges(const v1::ShardFile& file) {
  return coordinator::RangesOf(file.ranges());
}

int64_t StoredElements(const v1::ShardFile& file) {
  int64_t elements = 0;
  for (const v1::FlatRange& range : file.ranges()) elements += range.flat_end() - range.flat_begin();
  return elements;
}

void SetStoredRanges(const std::vector<coordinator::PlacedRange>& ranges, v1::ShardFile* file) {
  coordinator::SetRanges(ranges, file->mutable_ranges());
}

}  // namespace zerofleet::checkpoint
