// Copy, then write in the background; see checkpointer.h.
#include "worker/trainer/checkpointer.h"

#include <utility>

#include "base/kill_point.h"
#include "base/status.h"
#include "worker/checkpoint/shard_writer.h"

namespace zerofleet::trainer {
namespace {

void SetFailure(const absl::Status& status, v1::ShardWritten& outcome) {
  outcome.mutable_failure()->set_code(static_cast<int>(status.code()));
  outcome.mutable_failure()->set_message(std::string(status.message()));
  outcome.mutable_failure()->set_step(outcome.step());
}

}  // namespace

Checkpointer::Checkpointer(int rank, const zero::ZeroLayout& layout, zero::TrainingState& state, device::Device& device,
                           device::Stream& stream, memory::Arena& host_arena, Snapshot& snapshot, const Clock& clock,
                           std::optional<LiveStates> live)
    : rank_(rank),
      layout_(layout),
      state_(state),
      device_(device),
      stream_(stream),
      host_arena_(host_arena),
      snapshot_(snapshot),
      clock_(clock),
      live_(std::move(live)) {}

// What is written from states that are given up would be of no view.
Checkpointer::~Checkpointer() {
  stopping_ = true;
  if (writer_.joinable()) writer_.join();
}

absl::StatusOr<double> Checkpointer::Save(const std::string& partial_dir, const v1::CheckpointManifest& manifest,
                                          std::function<void(v1::ShardWritten)> written, double waited) {
  const double start = clock_.MonotonicSeconds() - waited;
  if (writer_.joinable()) writer_.join();
  v1::ShardWritten outcome;
  outcome.set_step(manifest.step());
  *outcome.mutable_manifest() = manifest;
  if (MustReserve()) {
    const absl::Status reserved = snapshot_.Reserve(host_arena_);
    if (!reserved.ok()) {
      SetFailure(reserved, outcome);
      written(std::move(outcome));
      return clock_.MonotonicSeconds() - start;
    }
  }
  if (live_) {
    if (live_->copies != nullptr) live_->copies->Wait(*stream_.Record());
    pieces_.emplace(state_, device_, live_->copies.get(), live_->staging, stopping_);
    ZF_KILL_POINT("save/gate-closed");
  } else {
    ZF_RETURN_IF_ERROR(TakeSnapshot(manifest));
  }
  double stall = clock_.MonotonicSeconds() - start;
  outcome.set_stall_seconds(stall);
  writer_ = std::thread([this, partial_dir, outcome = std::move(outcome), written = std::move(written)]() mutable {
    Write(partial_dir, std::move(outcome), written);
  });
  return stall;
}

absl::Status Checkpointer::TakeSnapshot(const v1::CheckpointManifest& manifest) {
  ZF_KILL_POINT("save/before-snapshot");
  snapshot_.Clear();
  v1::ReplicaHeader header;
  header.set_rank(rank_);
  *header.mutable_manifest() = manifest;
  ZF_ASSIGN_OR_RETURN(const int64_t filled, snapshot_.FillFrom(state_, device_, stream_));
  header.set_bytes(filled);
  snapshot_.Hold(std::move(header));
  ZF_KILL_POINT("save/snapshot-taken");
  return absl::OkStatus();
}

absl::StatusOr<v1::ShardFile> Checkpointer::WriteFile(const std::string& partial_dir) {
  const std::vector<coordinator::PlacedRange> ranges = layout_.partition().StoredRanges(layout_.options().rank);
  if (live_) {
    return checkpoint::WriteShard(partial_dir, rank_, ranges, layout_.optimizer(), [this] { return pieces_->Next(); });
  }
  snapshot_.Seal(snapshot_.Digest());
  return checkpoint::WriteShard(partial_dir, rank_, ranges, layout_.optimizer(),
                                snapshot_.Vectors(static_cast<int>(state_.vector_count())));
}

void Checkpointer::Write(const std::string& partial_dir, v1::ShardWritten outcome,
                         const std::function<void(v1::ShardWritten)>& written) {
  double start = clock_.MonotonicSeconds();
  absl::StatusOr<v1::ShardFile> file = WriteFile(partial_dir);
  if (live_) {
    outcome.set_stall_seconds(outcome.stall_seconds() + pieces_->End());
    ZF_KILL_POINT("save/gate-open");
  }
  outcome.set_ok(file.ok());
  outcome.set_write_seconds(clock_.MonotonicSeconds() - start);
  if (file.ok()) {
    if (!live_) snapshot_.SetFile(*file);
    *outcome.mutable_file() = *std::move(file);
  } else {
    SetFailure(file.status(), outcome);
  }
  ZF_KILL_POINT("save/before-report");
  written(std::move(outcome));
  ZF_KILL_POINT("save/reported");
}

}  // namespace zerofleet::trainer
