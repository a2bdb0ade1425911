// Reading any part of a checkpoint, whatever fleet wrote it.
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

// Where elements go: `values` belong at `offset` of vector `vector` of the stored optimizer's table (0: the master
// weights). They are valid only during the call.
using ShardSink = std::function<absl::Status(int vector, int64_t offset, std::span<const float> values)>;

// The manifest of the checkpoint that has the weights of what is frozen in `manifest`, that of `step_dir`: NotFound if
// it is not there, DataLoss if it is another one, OutOfRange if it is of another model.
absl::StatusOr<v1::CheckpointManifest> ReadBase(const std::string& step_dir, const v1::CheckpointManifest& manifest);

// Hands the elements of `wanted`, ranges of the whole model's flat space, to `sink`, a piece at a time. `manifest` is
// that of `step_dir`, validated (ReadManifest). In how many parts the model was trained makes no difference.
//
// A checkpoint holds nothing of frozen units: their weights are those of its base, config.init_from, and come from
// there, as vector 0 alone. DataLoss if the base is another than the run had.
//
// Reads only the files that hold a wanted element, each once, front to back, through a buffer of 4 MiB, and checks
// each file's length, header and XXH3-128. DataLoss names the file and what is wrong with it; what the sink was given
// must then be discarded.
absl::Status LoadRanges(const std::string& step_dir, const v1::CheckpointManifest& manifest,
                        const std::vector<coordinator::PlacedRange>& wanted, const ShardSink& sink);

// As LoadRanges, to offsets of vectors in memory, in the order of the table; those beyond the last of `targets`, and
// null ones, are left out.
absl::Status LoadRanges(const std::string& step_dir, const v1::CheckpointManifest& manifest,
                        const std::vector<coordinator::PlacedRange>& wanted, const std::vector<float*>& targets);

// As LoadRanges, of weights alone. InvalidArgument if there is no average.
using WeightSink = std::function<absl::Status(int64_t offset, std::span<const float> values)>;
absl::Status LoadWeights(const std::string& step_dir, const v1::CheckpointManifest& manifest,
                         const std::vector<coordinator::PlacedRange>& wanted, WeightsOf which, const WeightSink& sink);

// Checks that every file of the checkpoint is there with the length that the manifest gives: then memory for what it
// holds may be allocated. DataLoss names the file.
absl::Status CheckShardLengths(const std::string& step_dir, const v1::CheckpointManifest& manifest);

// Reads every file that `manifest` lists from `dir` and checks length, header and digest: several files at a time, from
// the storage where the system lets it (DropFromCache). The error is that of the first bad file in rank order.
// `read_bytes`, if given, grows with what has been read.
absl::Status VerifyShards(const std::string& dir, const v1::CheckpointManifest& manifest,
                          std::atomic<int64_t>* read_bytes = nullptr);

// Reads and checks the manifest and every file of the checkpoint; with `committed`, that it is the one that was
// committed there. `read_bytes` as above.
absl::Status VerifyCheckpoint(const std::string& step_dir);
absl::Status VerifyCheckpoint(const std::string& step_dir, const ManifestIdentity& committed,
                              std::atomic<int64_t>* read_bytes = nullptr);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_SHARD_READER_H_
