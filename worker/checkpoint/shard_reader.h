// Reads any part of a checkpoint, whatever fleet wrote it.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_SHARD_READER_H_
#define ZEROFLEET_WORKER_CHECKPOINT_SHARD_READER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/partition.h"
#include "worker/checkpoint/manifest.h"
#include "worker/checkpoint/weights_of.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::checkpoint {

// Receives elements: `values` belong at `offset` of vector `vector` of the stored optimizer's table (0: the master
// weights). They are valid only during the call.
using ShardSink = std::function<absl::Status(int vector, int64_t offset, std::span<const float> values)>;

// Reads the manifest of the base: the checkpoint that has the weights that are frozen in `manifest`, the manifest of
// `step_dir`. NotFound if it is missing, DataLoss if it is another checkpoint, OutOfRange if it is of another model.
absl::StatusOr<v1::CheckpointManifest> ReadBase(const std::string& step_dir, const v1::CheckpointManifest& manifest);

// Hands the elements of `wanted`, ranges of the whole model's flat space, to `sink`, a piece at a time. `manifest` is
// the validated manifest of `step_dir` (ReadManifest). The number of parts in which the model was trained makes no
// difference.
//
// A checkpoint does not hold frozen units: their weights come from its base, config.init_from, as vector 0 only.
// DataLoss if the base is not the one that the run had.
//
// Reads only the files that hold a wanted element, each once, front to back, through a buffer of 4 MiB, and checks each
// file's length, header and XXH3-128. DataLoss names the file and what is wrong with it; everything that the sink has
// received must then be discarded.
absl::Status LoadRanges(const std::string& step_dir, const v1::CheckpointManifest& manifest,
                        const std::vector<coordinator::PlacedRange>& wanted, const ShardSink& sink);

// Like LoadRanges, into memory: `targets` has a vector for each of the table, in its order. Vectors that are null or
// beyond the last of `targets` are left out.
absl::Status LoadRanges(const std::string& step_dir, const v1::CheckpointManifest& manifest,
                        const std::vector<coordinator::PlacedRange>& wanted, const std::vector<float*>& targets);

// Like LoadRanges, for weights only. InvalidArgument if the average is wanted and there is none.
using WeightSink = std::function<absl::Status(int64_t offset, std::span<const float> values)>;
absl::Status LoadWeights(const std::string& step_dir, const v1::CheckpointManifest& manifest,
                         const std::vector<coordinator::PlacedRange>& wanted, WeightsOf which, const WeightSink& sink);

// Checks that every file of the checkpoint exists with the length that the manifest gives, so that memory for its
// contents may be allocated. DataLoss names the file.
absl::Status CheckShardLengths(const std::string& step_dir, const v1::CheckpointManifest& manifest);

// Reads every file in `dir` that `manifest` lists and checks length, header and digest: several files at a time, from
// storage where the system allows it (DropFromCache). The error is that of the first bad file in rank order.
// `read_bytes`, if given, grows by the bytes read.
absl::Status VerifyShards(const std::string& dir, const v1::CheckpointManifest& manifest,
                          std::atomic<int64_t>* read_bytes = nullptr);

// Reads and checks the manifest and every file of the checkpoint; with `committed`, also that it is the checkpoint that
// was committed there. `read_bytes` as in VerifyShards.
absl::Status VerifyCheckpoint(const std::string& step_dir);
absl::Status VerifyCheckpoint(const std::string& step_dir, const ManifestIdentity& committed,
                              std::atomic<int64_t>* read_bytes = nullptr);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_SHARD_READER_H_
