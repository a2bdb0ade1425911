// Whether a checkpoint is of the configured model and optimizer, and where that model's elements are in it.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_SAME_MODEL_H_
#define ZEROFLEET_WORKER_CHECKPOINT_SAME_MODEL_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/partition.h"
#include "worker/model/spec.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::checkpoint {

// OutOfRange, naming the field and both values, unless every field of the stored model that changes what it computes
// equals the configured one. The context may be shorter than the stored one: a position table's first rows are a table.
absl::Status CheckSameModel(const v1::CheckpointManifest& manifest, const v1::ModelConfig& model,
                            const std::string& path);

// The same of a checkpoint whose weights a run begins with, or has frozen: what that run trains of them, and adapters
// that the checkpoint does not have, are its own affair.
absl::Status CheckBaseModel(const v1::CheckpointManifest& manifest, const v1::ModelConfig& model,
                            const std::string& path);

// OutOfRange, naming the field and both values, unless a run of `config` can go on from the checkpoint: CheckSameModel,
// the same tokenizer where both have one, and the same optimizer. At step 0 (an import) there is nothing of an
// optimizer's to go on from: any one may start.
absl::Status CheckResumable(const v1::CheckpointManifest& manifest, const v1::Config& config, const std::string& path);

// `wanted`, ranges of the configured model's flat space, as ranges of the stored one's: what to give to LoadRanges.
// What the stored model does not have, the adapters of one that does not, is left out. Equal but for a shorter context,
// where all that follows the position table is elsewhere. CheckSameModel has passed.
std::vector<coordinator::PlacedRange> StoredPlaces(const model::ModelSpec& spec, const v1::CheckpointManifest& manifest,
                                                   const std::vector<coordinator::PlacedRange>& wanted);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_SAME_MODEL_H_
