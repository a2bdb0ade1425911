// Copy, then write in the background; see checkpointer.h.
#include "worker/trainer/checkpointer.h"

#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "worker/checkpoint/shard_writer.h"
#include "worker/zero/memory_plan.h"

namespace zerofleet::trainer {
namespace {

int64_t StoredElements(const zero::ZeroLayout& layout) {
  int64_t elements = 0;
  for (const coordinator::PlacedRange& range : layout.partition().StoredRanges(layout.options().rank))
    elements += range.elements();
  return elements;
}

void SetFailure(const absl::Status& status, v1::ShardWritten& outcome) {
  outcome.mutable_failure()->set_code(static_cast<int>(status.code()));
  outcome.mutable_failure()->set_message(std::string(status.message()));
  outcome.mutable_failure()->set_step(outcome.step());
}

}  // namespace

Checkpointer::Checkpointer(const zero::ZeroLayout& layout, const zero::TrainingState& state, device::Device& device,
                           device::Stream& stream, memory::Arena& host_arena, const Clock& clock)
    : layout_(layout),
      state_(state),
      device_(device),
      stream_(stream),
      host_arena_(host_arena),
      clock_(clock),
      elements_(StoredElements(layout)) {}

Checkpointer::~Checkpointer() {
  if (writer_.joinable()) writer_.join();
}

absl::StatusOr<double> Checkpointer::Save(const std::string& partial_dir, const v1::CheckpointManifest& manifest,
                                          std::function<void(v1::ShardWritten)> written) {
  double start = clock_.MonotonicSeconds();
  if (writer_.joinable()) writer_.join();
  v1::ShardWritten outcome;
  outcome.set_step(manifest.step());
  *outcome.mutable_manifest() = manifest;
  if (MustReserve()) {
    absl::StatusOr<std::byte*> reserved = host_arena_.TakeLate(zero::kSnapshotRow);
    if (!reserved.ok()) {
      SetFailure(reserved.status(), outcome);
      written(std::move(outcome));
      return clock_.MonotonicSeconds() - start;
    }
    snapshot_ = reinterpret_cast<float*>(*reserved);
  }
  ZF_RETURN_IF_ERROR(CopyState());
  double stall = clock_.MonotonicSeconds() - start;
  outcome.set_stall_seconds(stall);
  writer_ = std::thread([this, partial_dir, outcome = std::move(outcome), written = std::move(written)]() mutable {
    Write(partial_dir, std::move(outcome), written);
  });
  return stall;
}

absl::Status Checkpointer::CopyState() {
  float* to = snapshot_;
  for (const device::Tensor& vector : state_.vectors()) {
    for (const coordinator::PlacedRange& range : state_.RangesToStore()) {
      device_.Copy(stream_, to, vector.Offset(range.offset).data, range.elements() * device::DTypeBytes(vector.dtype));
      to += range.elements();
    }
  }
  return stream_.Synchronize();
}

void Checkpointer::Write(const std::string& partial_dir, v1::ShardWritten outcome,
                         const std::function<void(v1::ShardWritten)>& written) {
  double start = clock_.MonotonicSeconds();
  int rank = layout_.options().rank;
  std::vector<std::span<const float>> vectors;
  for (size_t v = 0; v < state_.vectors().size(); ++v) {
    vectors.emplace_back(snapshot_ + static_cast<int64_t>(v) * elements_, static_cast<size_t>(elements_));
  }
  absl::StatusOr<v1::ShardFile> file =
      checkpoint::WriteShard(partial_dir, rank, layout_.partition().StoredRanges(rank), layout_.optimizer(), vectors);
  outcome.set_ok(file.ok());
  outcome.set_write_seconds(clock_.MonotonicSeconds() - start);
  if (file.ok()) {
    *outcome.mutable_file() = *std::move(file);
  } else {
    SetFailure(file.status(), outcome);
  }
  written(std::move(outcome));
}

}  // namespace zerofleet::trainer
