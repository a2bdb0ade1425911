// Validation, printing and parsing of manifests; see manifest.h.
#include "worker/checkpoint/manifest.h"

#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "coordinator/reshard.h"
#include "proto/json.h"
#include "proto/json_parse.h"
#include "worker/checkpoint/shard_format.h"

namespace zerofleet {
namespace {

constexpr int64_t kMaxManifestBytes = int64_t{64} << 20;
// Far beyond any model, far below what could overflow once multiplied by an element's bytes.
constexpr int64_t kMaxElements = int64_t{1} << 50;
constexpr int kDigestDigits = 32;

absl::Status Wrong(const std::string& where, const std::string& what) {
  return absl::DataLossError(absl::StrCat(where, ": ", what));
}

absl::Status CheckVersion(int64_t version) {
  if (version > kManifestFormatVersion) {
    return Wrong("format_version", absl::StrCat(version, " is of a later version of Zerofleet; this one reads up to ",
                                                kManifestFormatVersion));
  }
  if (version >= 1) return absl::OkStatus();
  return Wrong("format_version", absl::StrCat(version, ", expected 1 to ", kManifestFormatVersion));
}

absl::Status CheckTensors(const v1::CheckpointManifest& manifest) {
  if (manifest.tensors().empty()) return Wrong("tensors", "empty");
  std::set<std::string> names;
  int64_t next = 0;
  for (int i = 0; i < manifest.tensors_size(); ++i) {
    const v1::TensorEntry& tensor = manifest.tensors(i);
    const std::string where = absl::StrCat("tensors[", i, "]");
    if (tensor.name().empty()) return Wrong(where, "no name");
    if (!names.insert(tensor.name()).second) return Wrong(where, absl::StrCat("'", tensor.name(), "' stands twice"));
    if (tensor.dtype() != kStoredDType) return Wrong(where, absl::StrCat("dtype '", tensor.dtype(), "', expected F32"));
    int64_t elements = 1;
    for (int64_t side : tensor.shape()) {
      if (side < 1 || __builtin_mul_overflow(elements, side, &elements)) elements = kMaxElements + 1;
      if (elements > kMaxElements) return Wrong(where, "impossible shape");
    }
    if (tensor.flat_begin() != next) {
      return Wrong(where, absl::StrCat("flat_begin ", tensor.flat_begin(), ", expected ", next));
    }
    if (tensor.flat_end() != next + elements) {
      return Wrong(where, absl::StrCat("flat_end ", tensor.flat_end(), ", the shape needs ", next + elements));
    }
    next += elements;
    if (next > kMaxElements) return Wrong(where, "more elements than any model has");
  }
  return absl::OkStatus();
}

bool IsDigest(const std::string& text) {
  return text.size() == kDigestDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

bool IsPlainFileName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name != kManifestName &&
         name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

// Ranges stand one after another in a file, so that its vectors hold nothing else.
absl::Status CheckRanges(const v1::ShardFile& file, int64_t total, const std::string& where) {
  int64_t next_offset = 0;
  for (int r = 0; r < file.ranges_size(); ++r) {
    const v1::FlatRange& range = file.ranges(r);
    const std::string range_where = absl::StrCat(where, ".ranges[", r, "]");
    if (range.flat_begin() < 0 || range.flat_begin() >= range.flat_end() || range.flat_end() > total) {
      return Wrong(range_where, absl::StrCat("[", range.flat_begin(), ", ", range.flat_end(), ") is no range within ",
                                             total, " elements"));
    }
    if (range.offset() != next_offset) {
      return Wrong(range_where, absl::StrCat("offset ", range.offset(), ", expected ", next_offset));
    }
    next_offset += range.flat_end() - range.flat_begin();
    if (next_offset > total) return Wrong(range_where, "the file would hold more than the whole model");
  }
  return absl::OkStatus();
}

absl::Status CheckFiles(const v1::CheckpointManifest& manifest) {
  if (manifest.world_size() < 1 || manifest.files_size() != manifest.world_size()) {
    return Wrong("files", absl::StrCat(manifest.files_size(), " files of a world of ", manifest.world_size(),
                                       ", expected one a rank"));
  }
  const int64_t total = ManifestElements(manifest);
  std::set<std::string> names;
  std::set<int> ranks;
  std::vector<std::vector<PlacedRange>> sources;
  for (int f = 0; f < manifest.files_size(); ++f) {
    const v1::ShardFile& file = manifest.files(f);
    const std::string where = absl::StrCat("files[", f, "]");
    if (!IsPlainFileName(file.name())) return Wrong(where, absl::StrCat("'", file.name(), "' is no plain file name"));
    if (!names.insert(file.name()).second) return Wrong(where, absl::StrCat("'", file.name(), "' stands twice"));
    if (file.rank() < 0 || file.rank() >= manifest.world_size() || !ranks.insert(file.rank()).second) {
      return Wrong(where, absl::StrCat("rank ", file.rank(), " stands twice or is not in the world"));
    }
    if (!IsDigest(file.xxh3_128())) return Wrong(where, "xxh3_128 is not 32 lower-case hexadecimal digits");
    ZF_RETURN_IF_ERROR(CheckRanges(file, total, where));
    const int64_t least = StoredElements(file) * kShardVectors * static_cast<int64_t>(sizeof(float));
    if (file.bytes() <= least) {
      return Wrong(where, absl::StrCat("bytes ", file.bytes(), ", its ranges alone need ", least));
    }
    sources.push_back(StoredRanges(file));
  }
  absl::Status covered = Reshard(sources, {{0, total, 0}}).status();
  return Annotate(covered, "files");
}

}  // namespace

absl::Status ValidateManifest(const v1::CheckpointManifest& manifest) {
  ZF_RETURN_IF_ERROR(CheckVersion(manifest.format_version()));
  if (manifest.step() < 0) return Wrong("step", absl::StrCat(manifest.step(), " is negative"));
  if (!manifest.has_config()) return Wrong("config", "missing");
  ZF_RETURN_IF_ERROR(CheckTensors(manifest));
  ZF_RETURN_IF_ERROR(CheckFiles(manifest));
  if (manifest.data_cursor().samples_consumed() < 0) return Wrong("data_cursor.samples_consumed", "negative");
  const double scale = manifest.loss_scale().scale();
  if (!std::isfinite(scale) || scale <= 0) return Wrong("loss_scale.scale", absl::StrCat(scale, ", expected above 0"));
  return absl::OkStatus();
}

std::string ManifestText(const v1::CheckpointManifest& manifest) {
  return DumpJson(ProtoToJson(manifest), 1) + "\n";
}

absl::StatusOr<v1::CheckpointManifest> ParseManifest(std::string_view text) {
  absl::StatusOr<nlohmann::json> json = ParseJson(text);
  if (!json.ok()) return absl::DataLossError(std::string(json.status().message()));
  // The version first: a later one may hold keys that this program does not know.
  if (json->is_object() && json->contains("format_version") && (*json)["format_version"].is_number_integer()) {
    ZF_RETURN_IF_ERROR(CheckVersion((*json)["format_version"].get<int64_t>()));
  }
  v1::CheckpointManifest manifest;
  absl::Status filled = ParsedJsonToProto(*json, &manifest);
  if (!filled.ok()) return absl::DataLossError(std::string(filled.message()));
  ZF_RETURN_IF_ERROR(ValidateManifest(manifest));
  return manifest;
}

absl::StatusOr<v1::CheckpointManifest> ReadManifest(const std::string& step_dir) {
  const std::string path = JoinPath(step_dir, kManifestName);
  if (!FileExists(path)) {
    return absl::NotFoundError(absl::StrCat(step_dir, ": no ", kManifestName, ": not a committed checkpoint"));
  }
  ZF_ASSIGN_OR_RETURN(std::string text, ReadSmallFile(path, kMaxManifestBytes));
  absl::StatusOr<v1::CheckpointManifest> manifest = ParseManifest(text);
  if (!manifest.ok()) return Annotate(manifest.status(), path);
  return manifest;
}

int64_t ManifestElements(const v1::CheckpointManifest& manifest) {
  return manifest.tensors().empty() ? 0 : manifest.tensors(manifest.tensors_size() - 1).flat_end();
}

std::vector<PlacedRange> StoredRanges(const v1::ShardFile& file) {
  std::vector<PlacedRange> ranges;
  for (const v1::FlatRange& range : file.ranges()) {
    ranges.push_back({range.flat_begin(), range.flat_end(), range.offset()});
  }
  return ranges;
}

int64_t StoredElements(const v1::ShardFile& file) {
  int64_t elements = 0;
  for (const v1::FlatRange& range : file.ranges()) elements += range.flat_end() - range.flat_begin();
  return elements;
}

void SetStoredRanges(const std::vector<PlacedRange>& ranges, v1::ShardFile* file) {
  file->clear_ranges();
  for (const PlacedRange& range : ranges) {
    v1::FlatRange* entry = file->add_ranges();
    entry->set_flat_begin(range.flat_begin);
    entry->set_flat_end(range.flat_end);
    entry->set_offset(range.offset);
  }
}

}  // namespace zerofleet
