// The newest candidate, the figures and the news; see committed.h.
#include "coordinator/committed.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace zerofleet::coordinator {
namespace {

v1::Event CheckpointEventOf(const ManifestWritten& written, const PendingCommit& commit) {
  v1::Event event;
  v1::CheckpointEvent& checkpoint = *event.mutable_checkpoint();
  checkpoint.set_step(written.step);
  checkpoint.set_path(written.committed.path);
  for (const auto& [rank, shard] : commit.shards) {
    checkpoint.set_bytes(checkpoint.bytes() + shard.file().bytes());
    checkpoint.set_stall_seconds(std::max(checkpoint.stall_seconds(), shard.stall_seconds()));
    checkpoint.set_write_seconds(std::max(checkpoint.write_seconds(), shard.write_seconds()));
  }
  return event;
}

// Adds the checkpoint to the candidates of a recovery: the newest first, behind those found damaged, and no more than
// storage keeps.
void KeepCandidate(Fleet& fleet, const ManifestWritten& written, int64_t bytes) {
  std::vector<CheckpointCandidate>& candidates = fleet.parameters.candidates;
  const auto newest = candidates.begin() + static_cast<std::ptrdiff_t>(fleet.loading.candidate);
  candidates.insert(
      newest, {written.committed.path, written.step, fleet.team, written.generation, bytes, written.committed.digest});
  const size_t keep = static_cast<size_t>(std::max<int64_t>(1, fleet.parameters.config.checkpoint().keep()));
  candidates.resize(std::min(candidates.size(), fleet.loading.candidate + keep));
  fleet.parameters.may_fall_back = true;
}

}  // namespace

void NoteCommitted(Fleet& fleet, const ManifestWritten& written, const PendingCommit& commit) {
  v1::Event event = CheckpointEventOf(written, commit);
  fleet.saving.failed_save.reset();
  fleet.saving.last_committed_step = fleet.saving.committed_by_run = written.step;
  fleet.saving.last_committed_path = written.committed.path;
  fleet.saving.emptied = false;
  KeepCandidate(fleet, written, event.checkpoint().bytes());
  std::erase_if(fleet.training.recent.uncommitted, [&](const DoneStep& done) { return done.step <= written.step; });
  fleet.counters.checkpoint_bytes += event.checkpoint().bytes();
  fleet.Emit(PersistState{StateOf(fleet)}, "a checkpoint was committed");
  fleet.Publish(event, "a checkpoint was committed");
  for (const std::string& warning : written.committed.warnings) fleet.PublishNotice(warning);
}

}  // namespace zerofleet::coordinator
