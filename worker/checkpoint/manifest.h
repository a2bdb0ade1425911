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

// Version 1 had no digest of its own, 2 no team, 3 no tensor parallelism. All are still read, and a run of whole models
// still writes 3.
inline constexpr int kManifestFormatVersion = 4;
int FormatVersionOf(const v1::Config& config);
inline constexpr char kManifestName[] = "manifest.json";
inline constexpr char kStoredDType[] = "F32";

// DataLoss, with the field's path, unless the manifest is consistent: a version that this program reads, a valid
// configuration, the tensor table of that configuration's model, one file per rank with its digest and exactly the
// ranges that the partition gives that rank, and counters, loss scale and seed that agree with each other
// (manifest_check.cc).
absl::Status ValidateManifest(const v1::CheckpointManifest& manifest);

// DataLoss if this program does not read `version`.
absl::Status CheckManifestVersion(int64_t version);

// The text of manifest.json in the version that its run writes, with its own digest. The digest covers every byte: it
// is that of the whole text with its own 32 digits, which stand at a fixed place, taken as zeros.
std::string ManifestText(const v1::CheckpointManifest& manifest);

// Parses and validates a manifest, including the digest that a text since version 2 has. DataLoss otherwise. A run of a
// version without teams summed all its ranks together, at any world size: its team is read as kMostRanks, which
// continues that.
absl::StatusOr<v1::CheckpointManifest> ParseManifest(std::string_view text);

// XXH3-128 of a manifest's text with the digits of its own digest taken as zeros; since version 2 it is the digest that
// the text carries.
std::string ManifestDigest(std::string_view text);

// What identifies a committed checkpoint.
struct ManifestIdentity {
  int64_t step = 0;
  std::string digest;  // ManifestDigest; empty: not known
};

// Reads the manifest in `step_dir`. NotFound if there is none (it is not a committed checkpoint); DataLoss if it is not
// valid, or if `step_dir` is named for another step: a directory with any other name may hold a checkpoint of any step.
// `digest`, if given, becomes the text's ManifestDigest.
absl::StatusOr<v1::CheckpointManifest> ReadManifest(const std::string& step_dir, std::string* digest = nullptr);

// Also DataLoss if the manifest is not the one that was committed there.
absl::StatusOr<v1::CheckpointManifest> ReadManifest(const std::string& step_dir, const ManifestIdentity& committed);

// The optimizer whose states a valid manifest's files hold.
const optim::OptimizerRow& StoredOptimizer(const v1::CheckpointManifest& manifest);

// Elements in the flat space of the whole model of a valid manifest.
int64_t ManifestElements(const v1::CheckpointManifest& manifest);

// The part of the model to which a rank's file belongs.
model::ModelPart PartOf(const v1::CheckpointManifest& manifest, int rank);

// The ranges that a file of a valid manifest holds, in the flat space of its part of the model; and the number of
// elements in each of its vectors.
std::vector<coordinator::PlacedRange> StoredRanges(const v1::ShardFile& file);
int64_t StoredElements(const v1::ShardFile& file);

// Fills in the ranges of a file's entry: the reverse of StoredRanges.
void SetStoredRanges(const std::vector<coordinator::PlacedRange>& ranges, v1::ShardFile* file);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_MANIFEST_H_
