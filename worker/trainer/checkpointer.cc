// Copy, then write in the background; see checkpointer.h.
#include "worker/trainer/checkpointer.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/kill_point.h"
#include "base/status.h"
#include "coordinator/config_digest.h"
#include "worker/checkpoint/shard_format.h"
#include "worker/checkpoint/shard_writer.h"
#include "worker/trainer/failure_report.h"

namespace zerofleet::trainer {
namespace {

// The vectors of a snapshot, one piece at a time, so that the meter advances.
class SnapshotPieces {
 public:
  explicit SnapshotPieces(std::vector<std::span<const float>> vectors) : vectors_(std::move(vectors)) {}

  std::span<const std::byte> Next() {
    while (vector_ < vectors_.size() && offset_ == vectors_[vector_].size_bytes()) {
      ++vector_;
      offset_ = 0;
    }
    if (vector_ == vectors_.size()) return {};
    const std::span<const std::byte> left = std::as_bytes(vectors_[vector_]).subspan(offset_);
    const std::span<const std::byte> piece = left.first(std::min<size_t>(left.size(), checkpoint::kShardChunkBytes));
    offset_ += piece.size();
    return piece;
  }

 private:
  const std::vector<std::span<const float>> vectors_;
  size_t vector_ = 0, offset_ = 0;  // place of the next piece
};

}  // namespace

Checkpointer::Checkpointer(int rank, const zero::ZeroLayout& layout, zero::TrainingState& state, device::Device& device,
                           device::Stream& stream, memory::Arena& host_arena, Snapshot& snapshot, const Clock& clock,
                           std::optional<LiveStates> live, std::shared_ptr<SaveMeter> meter)
    : rank_(rank),
      layout_(layout),
      state_(state),
      device_(device),
      stream_(stream),
      host_arena_(host_arena),
      snapshot_(snapshot),
      clock_(clock),
      live_(std::move(live)),
      meter_(std::move(meter)) {}

// A file written from states that are being given up would belong to no view.
Checkpointer::~Checkpointer() {
  stopping_ = true;
  if (writer_.joinable()) writer_.join();
  meter_->End();
}

absl::StatusOr<double> Checkpointer::Save(const std::string& partial_dir, const v1::CheckpointManifest& manifest,
                                          std::function<void(v1::ShardWritten)> written, double waited) {
  const double start = clock_.MonotonicSeconds() - waited;
  if (writer_.joinable()) writer_.join();
  meter_->Begin(manifest.step());
  v1::ShardWritten outcome;
  outcome.set_step(manifest.step());
  *outcome.mutable_manifest() = manifest;
  outcome.mutable_manifest()->clear_config();  // the coordinator has it
  outcome.set_config_digest(coordinator::ConfigDigest(manifest.config()));
  if (MustReserve()) {
    const absl::Status reserved = snapshot_.Reserve(host_arena_);
    if (!reserved.ok()) {
      *outcome.mutable_failure() = FailureOf(reserved, outcome.step());
      meter_->End();
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
  if (!live_) snapshot_.Seal(snapshot_.Digest());
  SnapshotPieces held(live_ ? std::vector<std::span<const float>>()
                            : snapshot_.Vectors(static_cast<int>(state_.vector_count())));
  int64_t last = 0;  // bytes of the previous piece; it has been written when the next one is requested
  return checkpoint::WriteShard(partial_dir, rank_, ranges, layout_.optimizer(),
                                [&]() -> absl::StatusOr<std::span<const std::byte>> {
                                  meter_->Add(last);
                                  std::span<const std::byte> piece;
                                  if (live_) {
                                    ZF_ASSIGN_OR_RETURN(piece, pieces_->Next());
                                  } else {
                                    piece = held.Next();
                                  }
                                  last = static_cast<int64_t>(piece.size());
                                  return piece;
                                });
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
    *outcome.mutable_failure() = FailureOf(file.status(), outcome.step());
  }
  meter_->End();
  ZF_KILL_POINT("save/before-report");
  written(std::move(outcome));
  ZF_KILL_POINT("save/reported");
}

}  // namespace zerofleet::trainer
