// Copy, then write in the background; see checkpointer.h.
#include "worker/trainer/checkpointer.h"

#include <span>
#include <utility>

#include "base/status.h"
#include "worker/checkpoint/shard_writer.h"
#include "worker/zero/memory_plan.h"

namespace zerofleet {
namespace {

int64_t StoredElements(const ZeroLayout& layout) {
  int64_t elements = 0;
  for (const PlacedRange& range : layout.partition().StoredRanges(layout.options().rank)) elements += range.elements();
  return elements;
}

void SetFailure(const absl::Status& status, v1::ShardWritten& outcome) {
  outcome.mutable_failure()->set_code(static_cast<int>(status.code()));
  outcome.mutable_failure()->set_message(std::string(status.message()));
  outcome.mutable_failure()->set_step(outcome.step());
}

}  // namespace

Checkpointer::Checkpointer(const ZeroLayout& layout, const TrainingState& state, Device& device, Stream& stream,
                           Arena& host_arena, const Clock& clock)
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
    absl::StatusOr<std::byte*> reserved = host_arena_.TakeLate(kSnapshotRow);
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
  float* vectors[] = {snapshot_, snapshot_ + elements_, snapshot_ + 2 * elements_};
  int64_t offset = 0;
  for (const PlacedRange& range : state_.RangesToStore()) {
    AdamWState at = state_.At(range.offset);
    int64_t bytes = range.elements() * static_cast<int64_t>(sizeof(float));
    device_.Copy(stream_, vectors[0] + offset, at.master, bytes);
    device_.Copy(stream_, vectors[1] + offset, at.exp_avg, bytes);
    device_.Copy(stream_, vectors[2] + offset, at.exp_avg_sq, bytes);
    offset += range.elements();
  }
  return stream_.Synchronize();
}

void Checkpointer::Write(const std::string& partial_dir, v1::ShardWritten outcome,
                         const std::function<void(v1::ShardWritten)>& written) {
  double start = clock_.MonotonicSeconds();
  size_t elements = static_cast<size_t>(elements_);
  int rank = layout_.options().rank;
  absl::StatusOr<v1::ShardFile> file =
      WriteShard(partial_dir, rank, layout_.partition().StoredRanges(rank), std::span(snapshot_, elements),
                 std::span(snapshot_ + elements, elements), std::span(snapshot_ + 2 * elements, elements));
  outcome.set_ok(file.ok());
  outcome.set_write_seconds(clock_.MonotonicSeconds() - start);
  if (file.ok()) {
    *outcome.mutable_file() = *std::move(file);
  } else {
    SetFailure(file.status(), outcome);
  }
  written(std::move(outcome));
}

}  // namespace zerofleet
