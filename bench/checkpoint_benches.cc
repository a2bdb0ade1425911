// Writes and reads a shard, and writes a plain file of its size; see checkpoint_benches.h.
#include "bench/checkpoint_benches.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "bench/scratch_directory.h"
#include "worker/checkpoint/shard_reader.h"
#include "worker/checkpoint/shard_writer.h"
#include "worker/optim/optimizer.h"

namespace zerofleet::bench {
namespace {

constexpr size_t kPlainWriteBytes = 4 << 20;

absl::StatusOr<double> PlainWriteSeconds(const std::string& path, int64_t bytes) {
  const std::vector<std::byte> block(kPlainWriteBytes, std::byte{1});
  const double start = Clock::Real().MonotonicSeconds();
  ZF_ASSIGN_OR_RETURN(const std::unique_ptr<DurableFile> file, DurableFile::Create(path));
  for (int64_t left = bytes; left > 0; left -= static_cast<int64_t>(block.size())) {
    const auto size = std::min(static_cast<size_t>(left), block.size());
    ZF_RETURN_IF_ERROR(file->Write(std::span(block).first(size)));
  }
  ZF_RETURN_IF_ERROR(file->Sync());
  return Clock::Real().MonotonicSeconds() - start;
}

}  // namespace

absl::StatusOr<CheckpointRate> BenchCheckpoint(const CheckpointBenchOptions& options) {
  const optim::OptimizerRow& optimizer = optim::Optimizers().front();
  const int64_t vectors = static_cast<int64_t>(optimizer.vectors.size()),
                bytes_per_element = optimizer.StateBytesPerParameter();
  const int64_t elements = options.bytes / bytes_per_element;
  if (elements < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoint bench: must be at least ", bytes_per_element, " bytes, got ", options.bytes));
  }
  const ScratchDirectory scratch(options.directory);
  ZF_RETURN_IF_ERROR(scratch.Create("checkpoint bench"));
  CheckpointRate rate;
  rate.bytes = elements * bytes_per_element;
  const auto bytes = static_cast<double>(rate.bytes);
  ZF_ASSIGN_OR_RETURN(const double plain, PlainWriteSeconds(scratch.Path("plain"), rate.bytes));
  rate.disk_bytes_per_second = bytes / plain;

  const std::vector<coordinator::PlacedRange> ranges = {{0, elements, 0}};
  std::vector<float> state(elements, 0.5f);
  const std::string step_dir = scratch.Path("step-00000001");
  double start = Clock::Real().MonotonicSeconds();
  v1::CheckpointManifest manifest;
  manifest.mutable_config()->mutable_optimizer()->set_name(optimizer.name);
  ZF_ASSIGN_OR_RETURN(
      *manifest.add_files(),
      checkpoint::WriteShard(step_dir, 0, ranges, optimizer, std::vector<std::span<const float>>(vectors, state)));
  rate.write_bytes_per_second = bytes / (Clock::Real().MonotonicSeconds() - start);

  std::vector<std::vector<float>> loaded(vectors, std::vector<float>(elements));  // touched before the clock starts
  std::vector<float*> targets;
  for (std::vector<float>& vector : loaded) targets.push_back(vector.data());
  start = Clock::Real().MonotonicSeconds();
  ZF_RETURN_IF_ERROR(checkpoint::LoadRanges(step_dir, manifest, ranges, targets));
  rate.read_bytes_per_second = bytes / (Clock::Real().MonotonicSeconds() - start);
  return rate;
}

}  // namespace zerofleet::bench
