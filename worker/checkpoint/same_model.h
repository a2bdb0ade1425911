// Whether a checkpoint belongs to the configured model and optimizer, and where that model's elements are in it.
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
// equals the configured one. The context may be shorter than the stored one: the first rows of a position table are a
// table.
absl::Status CheckSameModel(const v1::CheckpointManifest& manifest, const v1::ModelConfig& model,
                            const std::string& path);

// Like CheckSameModel, for a checkpoint with whose weights a run begins, or whose weights it keeps frozen: which of
// them the run trains may differ, and it may have adapters that the checkpoint lacks.
absl::Status CheckBaseModel(const v1::CheckpointManifest& manifest, const v1::ModelConfig& model,
                            const std::string& path);

// OutOfRange, naming the field and both values, unless a run of `config` can continue from the checkpoint:
// CheckSameModel passes, the tokenizer is the same where both have one, and so is the optimizer. At step 0 (an import)
// there are no optimizer states yet, and any optimizer may start.
absl::Status CheckResumable(const v1::CheckpointManifest& manifest, const v1::Config& config, const std::string& path);

// Returns `wanted`, ranges of the configured model's flat space, as ranges of the stored model's, for LoadRanges. What
// the stored model lacks (adapters) is left out. The two differ only with a shorter context, which moves everything
// behind the position table. CheckSameModel must have passed.
std::vector<coordinator::PlacedRange> StoredPlaces(const model::ModelSpec& spec, const v1::CheckpointManifest& manifest,
                                                   const std::vector<coordinator::PlacedRange>& wanted);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_SAME_MODEL_H_
