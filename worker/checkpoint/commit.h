// The commit of a checkpoint: what every rank has written becomes a step directory that is never written to again.
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
// directory and syncs its parent. The rename is the commit: before it there is no `step_dir`, after it a whole one. It
// is taken back if the parent cannot be synced.
//
// `tokenizer` are the files that the manifest describes as the tokenizer's; they are written here.
//
// A commit removes nothing and replaces nothing but an empty directory. `may_commit`, if given, is asked right before
// the rename: what it says instead of OK is returned, and nothing is committed. `read_bytes`, if given, grows with what
// has been read of the shards.
//
// FailedPrecondition if `step_dir` is committed already, or holds anything else; DataLoss naming the file for a shard
// that is not what the manifest says.
absl::Status CommitCheckpoint(const std::string& step_dir, const v1::CheckpointManifest& manifest,
                              const TokenizerFiles& tokenizer = {},
                              const std::function<absl::Status()>& may_commit = nullptr,
                              std::atomic<int64_t>* read_bytes = nullptr);

}  // namespace zerofleet::checkpoint

#endif  // ZEROFLEET_WORKER_CHECKPOINT_COMMIT_H_
