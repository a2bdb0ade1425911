// Pieces into the state, as they come; see state_sink.h.
#include "worker/trainer/state_sink.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace zerofleet::trainer {

StateSink::StateSink(const SnapshotStore& store, v1::SnapshotShard wanted, zero::TrainingState& state,
                     device::Device& device, device::Stream& stream)
    : store_(store), wanted_(std::move(wanted)), state_(state), device_(device), stream_(stream) {
  for (size_t v = 0; v < state_.vector_count(); ++v) {
    for (const coordinator::PlacedRange& range : state_.RangesToStore()) {
      missing_.push_back({v, range.offset, range.elements()});
    }
  }
  std::reverse(missing_.begin(), missing_.end());
}

absl::Status StateSink::Begin(const v1::ReplicaHeader& header) {
  header_ = header;
  return store_.CheckOwn(header, wanted_);
}

absl::Status StateSink::Append(std::span<const std::byte> data) {
  while (!data.empty()) {
    if (missing_.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("more than the ", header_.bytes(), " bytes that were announced have arrived"));
    }
    Run& run = missing_.back();
    const int64_t element = state_.ElementBytes(run.vector);
    const int64_t bytes = std::min(run.elements * element, static_cast<int64_t>(data.size()));
    if (bytes % element != 0) return absl::InvalidArgumentError("a piece ends within an element");
    const int64_t elements = bytes / element;
    ZF_RETURN_IF_ERROR(state_.CopyIn(device_, stream_, run.vector, run.offset, elements, data.data()));
    run.offset += elements;
    run.elements -= elements;
    if (run.elements == 0) missing_.pop_back();
    data = data.subspan(static_cast<size_t>(bytes));
  }
  return stream_.Synchronize();  // the caller may now overwrite the data
}

absl::Status StateSink::End(const std::string&) {
  if (missing_.empty()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("fewer than the ", header_.bytes(), " bytes that were announced have arrived"));
}

}  // namespace zerofleet::trainer
