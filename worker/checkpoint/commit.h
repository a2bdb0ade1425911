// The commit of a checkpoint: the files that every rank has written become a step directory that is never written
// again.
#ifndef ZEROFLEET_WORKER_CHECKPOINT_COMMIT_H_
#define ZEROFLEET_WORKER_CHECKPOINT_COMMIT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "worker/checkpoint/tokenizer_files.h"
#include "zerofleet/v1/checkpoint.pb.h"

namespace zerofleet::checkpoint {

// Commits the shards in PartialDirectory(step_dir, manifest.generation()) as `step_dir`: validates the manifest, reads
// every shard and checks its length, header and digest, writes manifest.json by write, fsync and rename, renames the
// directory and syncs its parent. The rename is the commit: before it there is no `step_dir`, after it a complete one.
// If the parent cannot be synced, the rename is undone.
//
// `tokenizer` has the files that the manifest describes as the tokenizer's; the commit writes them.
//
// A commit removes nothing and replaces nothing but an empty directory. `may_commit`, if given, is called right before
// the rename: if it does not return OK, nothing is committed and its status is returned. `read_bytes`, if given, grows
// by the bytes read of the shards.
//
// FailedPrecondition if `step_dir` is already committed, or holds anything else; DataLoss, naming the file, for a shard
// that differs from what the manifest says.
absl::Status CommitCheckpoint(const std::string& step_dir, const v1::CheckpointManifest& manifest,
                              const TokenizerFiles& tokenizer = {},
                              const std::function<absl::Status()>& may_commit = nullptr,
                              std::atomic<int64_t>* read_bytes = nullptr);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_COMMIT_H_
