// A shard written, read, and a plain file of its size; see checkpoint_benches.h.
#include "bench/checkpoint_benches.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "worker/checkpoint/shard_reader.h"
#include "worker/checkpoint/shard_writer.h"

namespace zerofleet {
namespace {

constexpr int64_t kBytesPerElement = 12;  // master and two moments, fp32
constexpr size_t kPlainWriteBytes = 4 << 20;

// Removed in every case.
struct Scratch {
  std::string path;
  ~Scratch() { RemoveTree(path).IgnoreError(); }
};

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
  const int64_t elements = options.bytes / kBytesPerElement;
  if (elements < 1) {
    return absl::InvalidArgumentError(absl::StrCat("checkpoint bench: must be at least 12 bytes, got ", options.bytes));
  }
  if (!IsDirectory(options.directory)) {
    return absl::InvalidArgumentError(absl::StrCat("checkpoint bench: ", options.directory, " is not a directory"));
  }
  const Scratch scratch{JoinPath(options.directory, absl::StrCat("zerofleet-bench-", getpid()))};
  ZF_RETURN_IF_ERROR(CreateDirectories(scratch.path));
  CheckpointRate rate;
  rate.bytes = elements * kBytesPerElement;
  const auto bytes = static_cast<double>(rate.bytes);
  ZF_ASSIGN_OR_RETURN(const double plain, PlainWriteSeconds(JoinPath(scratch.path, "plain"), rate.bytes));
  rate.disk_bytes_per_second = bytes / plain;

  const std::vector<PlacedRange> ranges = {{0, elements, 0}};
  std::vector<float> state(elements, 0.5f);
  const std::string step_dir = JoinPath(scratch.path, "step-00000001");
  double start = Clock::Real().MonotonicSeconds();
  v1::CheckpointManifest manifest;
  ZF_ASSIGN_OR_RETURN(*manifest.add_files(), WriteShard(step_dir, 0, ranges, state, state, state));
  rate.write_bytes_per_second = bytes / (Clock::Real().MonotonicSeconds() - start);

  std::vector<float> exp_avg(elements), exp_avg_sq(elements);  // touched before the clock starts
  start = Clock::Real().MonotonicSeconds();
  ZF_RETURN_IF_ERROR(LoadRanges(step_dir, manifest, ranges, state.data(), exp_avg.data(), exp_avg_sq.data()));
  rate.read_bytes_per_second = bytes / (Clock::Real().MonotonicSeconds() - start);
  return rate;
}

}  // namespace zerofleet
