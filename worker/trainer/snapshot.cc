// Copies out of the state and back into it; see snapshot.h.
#include "worker/trainer/snapshot.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/digest.h"
#include "base/status.h"

namespace zerofleet::trainer {

void Snapshot::EnterView(int64_t bytes, memory::Arena& arena) {
  if (bytes_ != bytes) Release();
  bytes_ = bytes;
  if (memory_ != nullptr) arena.KeepLate(row_, memory_);
}

absl::Status Snapshot::Reserve(memory::Arena& arena) {
  ZF_CHECK(!reserved());
  ZF_ASSIGN_OR_RETURN(memory_, arena.TakeLate(row_));
  return absl::OkStatus();
}

void Snapshot::Release() {
  Clear();
  memory_.reset();
}

void Snapshot::Clear() {
  held_.reset();
  seal_.clear();
  file_.reset();
}

absl::StatusOr<int64_t> Snapshot::FillFrom(const zero::TrainingState& state, device::Device& device,
                                           device::Stream& stream) {
  ZF_CHECK(held() == nullptr);
  std::byte* to = memory().data();
  for (size_t v = 0; v < state.vector_count(); ++v) {
    for (const coordinator::PlacedRange& range : state.RangesToStore()) {
      ZF_RETURN_IF_ERROR(state.CopyOut(device, stream, v, range.offset, range.elements(), to));
      to += range.elements() * state.ElementBytes(v);
    }
  }
  const int64_t filled = to - memory().data();
  ZF_CHECK(filled <= bytes_);
  ZF_RETURN_IF_ERROR(stream.Synchronize());
  return filled;
}

std::string Snapshot::Digest() const {
  return Digest128(
      std::string_view(reinterpret_cast<const char*>(memory().data()), static_cast<size_t>(held()->bytes())));
}

absl::Status Snapshot::CopyTo(zero::TrainingState& state, device::Device& device, device::Stream& stream) const {
  ZF_CHECK(held() != nullptr);
  ZF_CHECK(!seal_.empty());
  if (const std::string found = Digest(); found != seal_) {
    return absl::DataLossError(absl::StrCat("what this rank had in memory of step ", held()->manifest().step(),
                                            " has changed since: its XXH3-128 is ", found, ", it was ", seal_));
  }
  const std::byte* from = memory().data();
  for (size_t v = 0; v < state.vector_count(); ++v) {
    for (const coordinator::PlacedRange& range : state.RangesToStore()) {
      ZF_RETURN_IF_ERROR(state.CopyIn(device, stream, v, range.offset, range.elements(), from));
      from += range.elements() * state.ElementBytes(v);
    }
  }
  ZF_CHECK(from - memory().data() == held()->bytes());
  return stream.Synchronize();
}

std::vector<std::span<const float>> Snapshot::Vectors(int count) const {
  const size_t elements = static_cast<size_t>(held()->bytes()) / sizeof(float) / static_cast<size_t>(count);
  const float* const first = reinterpret_cast<const float*>(memory().data());
  std::vector<std::span<const float>> vectors;
  for (int v = 0; v < count; ++v) vectors.emplace_back(first + static_cast<size_t>(v) * elements, elements);
  return vectors;
}

}  // namespace zerofleet::trainer
