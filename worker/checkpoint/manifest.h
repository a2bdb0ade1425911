// manifest.json: the commit record of a checkpoint, and the one place that decides whether it is valid.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_MANIFEST_H_
#define ZEROFLEET_WORKER_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/partition.h"
#include "worker/model/part.h"
#include "worker/optim/optimizer.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::checkpoint {

// 1 had no digest of its own, 2 no team, 3 no tensor parallelism; all are still read, and 3 is still what a run of
// whole models writes.
inline constexpr int kManifestFormatVersion = 4;
int FormatVersionOf(const v1::Config& config);
inline constexpr char kManifestName[] = "manifest.json";
inline constexpr char kStoredDType[] = "F32";

// DataLoss, with the field's path, unless the manifest holds together: a version this program reads, a valid
// configuration, the tensor table of that configuration's model, one file per rank with its digest and exactly the
// ranges that the partition gives that rank, and counters, loss scale and seed that agree with each other
// (manifest_check.cc).
absl::Status ValidateManifest(const v1::CheckpointManifest& manifest);

// DataLoss if `version` is none that this program reads.
absl::Status CheckManifestVersion(int64_t version);

// The text of manifest.json in its run's version, with its own digest. Every byte is covered: the digest is of the
// whole text, its own 32 digits (which stand at a fixed place) taken as zeros.
std::string ManifestText(const v1::CheckpointManifest& manifest);

// What is read is validated, the digest of a text since version 2 included. DataLoss otherwise. A run of a version
// without teams summed all its ranks together, at any world size: its team is read as kMostRanks, which goes on so.
absl::StatusOr<v1::CheckpointManifest> ParseManifest(std::string_view text);

// XXH3-128 of a manifest's text, the digits of its own digest taken as zeros: of a text since version 2, the digest
// that it carries.
std::string ManifestDigest(std::string_view text);

// What a checkpoint that was committed is known by.
struct ManifestIdentity {
  int64_t step = 0;
  std::string digest;  // ManifestDigest; empty: not known
};

// NotFound if `step_dir` holds no manifest (it is not a committed checkpoint), DataLoss if it is not valid, or if
// `step_dir` is named for another step: a directory with any other name may hold a checkpoint of any step. `digest`, if
// given, becomes the text's ManifestDigest.
absl::StatusOr<v1::CheckpointManifest> ReadManifest(const std::string& step_dir, std::string* digest = nullptr);

// The same, and DataLoss if it is another manifest than was committed there.
absl::StatusOr<v1::CheckpointManifest> ReadManifest(const std::string& step_dir, const ManifestIdentity& committed);

// The optimizer whose states a valid manifest's files hold.
const optim::OptimizerRow& StoredOptimizer(const v1::CheckpointManifest& manifest);

// Elements of the flat space of a valid manifest's whole model.
int64_t ManifestElements(const v1::CheckpointManifest& manifest);

// The part of the model that a rank's file is of.
model::ModelPart PartOf(const v1::CheckpointManifest& manifest, int rank);

// The ranges that a file of a valid manifest holds, in the flat space of its part of the model, and the elements of
// each of its vectors.
std::vector<coordinator::PlacedRange> StoredRanges(const v1::ShardFile& file);
int64_t StoredElements(const v1::ShardFile& file);

// Fills in the ranges of a file's entry: the reverse of StoredRanges.
void SetStoredRanges(const std::vector<coordinator::PlacedRange>& ranges, v1::ShardFile* file);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_MANIFEST_H_
