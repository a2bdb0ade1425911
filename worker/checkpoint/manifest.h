// manifest.json: the commit record of a checkpoint, and the one place that decides whether to believe it.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_MANIFEST_H_
#define ZEROFLEET_WORKER_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/partition.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet {

inline constexpr int kManifestFormatVersion = 1;
inline constexpr char kManifestName[] = "manifest.json";
inline constexpr char kStoredDType[] = "F32";

// DataLoss, with the field's path, unless the manifest is whole: a version this program reads, a tensor table without
// gap, one file a rank with safe names and digests, and ranges that lie within and together cover the flat space.
absl::Status ValidateManifest(const v1::CheckpointManifest& manifest);

// The text of manifest.json, and back; what is read is validated.
std::string ManifestText(const v1::CheckpointManifest& manifest);
absl::StatusOr<v1::CheckpointManifest> ParseManifest(std::string_view text);

// NotFound if `step_dir` holds no manifest (it is not a committed checkpoint), DataLoss if it is not valid.
absl::StatusOr<v1::CheckpointManifest> ReadManifest(const std::string& step_dir);

// Elements of the flat space of a valid manifest.
int64_t ManifestElements(const v1::CheckpointManifest& manifest);

// The ranges that a file of a valid manifest holds, and the elements of each of its vectors.
std::vector<PlacedRange> StoredRanges(const v1::ShardFile& file);
int64_t StoredElements(const v1::ShardFile& file);

// A file's entry says where its ranges stand: the reverse of StoredRanges.
void SetStoredRanges(const std::vector<PlacedRange>& ranges, v1::ShardFile* file);

}  // namespace zerofleet

#endif  // ZEROFLEET_WORKER_CHECKPOINT_MANIFEST_H_
