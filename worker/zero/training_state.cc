// Initialisation and ranges of the training state; see training_state.h.
#include "worker/zero/training_state.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "base/status.h"
#include "worker/optim/step_rule.h"

namespace zerofleet::zero {

namespace {

// How many elements of the average are not in the file; these are on the host, whichever space the other vectors are
// in.
int64_t AveragesInMemory(const ZeroLayout& layout) {
  return layout.states_in_file() ? layout.states_on_device() : layout.optimizer_elements();
}

}  // namespace

std::vector<memory::MemoryRow> TrainingState::Rows(const ZeroLayout& layout) {
  std::vector<memory::MemoryRow> rows;
  const auto add = [&](memory::Space space, int64_t elements) {
    for (const optim::OptimizerVector& vector : layout.optimizer().vectors) {
      if (vector.is_average) continue;
      rows.push_back({space, memory::Category::kOptimizer, vector.name, elements * device::DTypeBytes(vector.dtype)});
    }
  };
  if (layout.states_on_device() > 0) add(memory::Space::kDevice, layout.states_on_device());
  if (layout.offloads() && !layout.states_in_file()) add(memory::Space::kHost, layout.states_on_host());
  const optim::OptimizerVector& last = layout.optimizer().vectors.back();
  if (last.is_average && AveragesInMemory(layout) > 0) {
    rows.push_back({memory::Space::kHost, memory::Category::kAverages, last.name,
                    AveragesInMemory(layout) * device::DTypeBytes(last.dtype)});
  }
  return rows;
}

int64_t TrainingState::StoredBytes(const ZeroLayout& layout, int rank) {
  int64_t elements = 0;
  for (const coordinator::PlacedRange& range : layout.partition().StoredRanges(rank)) elements += range.elements();
  return elements * layout.optimizer().StateBytesPerParameter();
}

int64_t TrainingState::MostStoredBytes(const ZeroLayout& layout) {
  int64_t most = 0;
  for (int rank = 0; rank < layout.options().world_size; ++rank) most = std::max(most, StoredBytes(layout, rank));
  return most;
}

TrainingState::TrainingState(const model::ModelSpec& spec, const ZeroLayout& layout, memory::Arena& device_arena,
                             memory::Arena& host_arena, StateFile* file)
    : spec_(spec), layout_(layout), file_(file) {
  device::Tensor average;
  if (layout_.optimizer().averages() && AveragesInMemory(layout_) > 0) {
    average = {host_arena.Take(layout_.optimizer().vectors.back().name), layout_.optimizer().vectors.back().dtype};
  }
  const auto add = [&](memory::Arena* arena, int64_t begin, int64_t end) {
    if (begin == end) return;
    Place& place = places_.emplace_back();
    place.begin = begin;
    place.end = end;
    if (arena == nullptr) return;
    for (const optim::OptimizerVector& vector : layout_.optimizer().vectors) {
      place.vectors.push_back(vector.is_average ? average.Offset(begin)
                                                : device::Tensor{arena->Take(vector.name), vector.dtype});
    }
  };
  add(&device_arena, 0, layout_.states_on_device());
  add(layout_.states_in_file() ? nullptr : &host_arena, layout_.states_on_device(), layout_.optimizer_elements());
  for (int u = 0; u < layout_.units(); ++u) {
    ZeroLayout::UpdatedRange piece = layout_.Updated(u);
    segments_.push_back(optim::DecaySegments(spec_, piece.flat_begin, piece.flat_end));
  }
}

const optim::StateTensors& TrainingState::vectors() const {
  ZF_CHECK(places_.size() == 1);
  ZF_CHECK(!places_.front().vectors.empty());
  return places_.front().vectors;
}

optim::StateTensors TrainingState::At(int64_t offset) const {
  optim::StateTensors at;
  const Place& place = places_[offset < places_.front().end ? 0 : places_.size() - 1];
  ZF_CHECK(!place.vectors.empty());
  for (const device::Tensor& vector : place.vectors) at.push_back(vector.Offset(offset - place.begin));
  return at;
}

absl::Status TrainingState::ForEachRun(int64_t offset, int64_t elements, const Visit& visit) const {
  int64_t done = 0;
  for (const Place& place : places_) {
    const int64_t begin = std::max(place.begin, offset), end = std::min(place.end, offset + elements);
    if (begin >= end) continue;
    ZF_RETURN_IF_ERROR(visit(place, begin, end - begin, done));
    done += end - begin;
  }
  ZF_CHECK(done == elements);
  return absl::OkStatus();
}

absl::Status TrainingState::CopyOut(device::Device& device, device::Stream& stream, size_t vector, int64_t offset,
                                    int64_t elements, void* to) const {
  const int64_t element = ElementBytes(vector);
  return ForEachRun(offset, elements, [&](const Place& place, int64_t first, int64_t count, int64_t done) {
    std::byte* const at = static_cast<std::byte*>(to) + done * element;
    if (place.vectors.empty()) return file_->CopyOut(vector, first, count, at);
    device.Copy(stream, at, place.vectors[vector].Offset(first - place.begin).data, count * element);
    return absl::OkStatus();
  });
}

absl::Status TrainingState::CopyIn(device::Device& device, device::Stream& stream, size_t vector, int64_t offset,
                                   int64_t elements, const void* from) {
  const int64_t element = ElementBytes(vector);
  return ForEachRun(offset, elements, [&](const Place& place, int64_t first, int64_t count, int64_t done) {
    const std::byte* const at = static_cast<const std::byte*>(from) + done * element;
    if (place.vectors.empty()) return file_->CopyIn(vector, first, count, at);
    device.Copy(stream, place.vectors[vector].Offset(first - place.begin).data, at, count * element);
    return absl::OkStatus();
  });
}

absl::Status TrainingState::FillFile(
    device::Stream& stream, const std::function<void(const StateTile& tile, const optim::StateTensors& pieces)>& fill) {
  if (file_ == nullptr) return absl::OkStatus();
  for (size_t t = 0; t < file_->tiles().size(); ++t) {
    ZF_ASSIGN_OR_RETURN(const optim::StateTensors pieces, file_->OpenToFill(t));
    fill(file_->tiles()[t], pieces);
    ZF_RETURN_IF_ERROR(stream.Synchronize());
    file_->Close(t, /*changed=*/true);
  }
  return absl::OkStatus();
}

std::vector<device::DecaySegment> TrainingState::Segments(int unit, int64_t begin, int64_t count) const {
  std::vector<device::DecaySegment> within;
  for (const device::DecaySegment& segment : segments_[unit]) {
    const int64_t from = std::max(segment.offset, begin);
    const int64_t to = std::min(segment.offset + segment.count, begin + count);
    if (from < to) within.push_back({from - begin, to - from, segment.decay});
  }
  return within;
}

absl::Status TrainingState::Initialize(uint64_t seed, device::Ops& ops, device::Stream& stream) {
  ClearMemory(ops, stream);  // the padding, too
  const auto begins_with_weights = [this](size_t v) {
    return layout_.optimizer().vectors[v].initial == optim::OptimizerVector::Initial::kWeights;
  };
  for (size_t v = 0; v < vector_count(); ++v) {
    for (int u = 0; u < layout_.units() && begins_with_weights(v); ++u) {
      const ZeroLayout::UpdatedRange piece = layout_.Updated(u);
      const auto fill = [&](const Place& place, int64_t first, int64_t count, int64_t done) {
        if (place.vectors.empty()) return absl::OkStatus();
        const int64_t begin = piece.flat_begin + done;
        FillInitial(begin, begin + count, seed, ops, stream,
                    static_cast<float*>(place.vectors[v].Offset(first - place.begin).data));
        return absl::OkStatus();
      };
      ZF_RETURN_IF_ERROR(ForEachRun(piece.state_offset, piece.elements(), fill));
    }
  }
  return FillFile(stream, [&](const StateTile& tile, const optim::StateTensors& pieces) {
    const int64_t begin = layout_.Updated(tile.unit).flat_begin + tile.begin;
    for (size_t v = 0; v < pieces.size(); ++v) {
      ops.Zero(stream, pieces[v].data, tile.count * ElementBytes(v));
      if (!begins_with_weights(v)) continue;
      FillInitial(begin, begin + tile.count, seed, ops, stream, static_cast<float*>(pieces[v].data));
    }
  });
}

void TrainingState::ClearMemory(device::Ops& ops, device::Stream& stream) {
  ZF_CHECK(!gate_.closed());
  for (const Place& place : places_) {
    for (const device::Tensor& vector : place.vectors) {
      ops.Zero(stream, vector.data, (place.end - place.begin) * device::DTypeBytes(vector.dtype));
    }
  }
}

absl::Status TrainingState::Clear(device::Ops& ops, device::Stream& stream) {
  ClearMemory(ops, stream);
  return FillFile(stream, [&](const StateTile& tile, const optim::StateTensors& pieces) {
    for (size_t v = 0; v < pieces.size(); ++v) ops.Zero(stream, pieces[v].data, tile.count * ElementBytes(v));
  });
}

void TrainingState::FillInitial(int64_t flat_begin, int64_t flat_end, uint64_t seed, device::Ops& ops,
                                device::Stream& stream, float* to) const {
  for (size_t t = 0; t < spec_.tensors().size(); ++t) {
    const model::TensorSpec& tensor = spec_.tensors()[t];
    int64_t begin = std::max(tensor.flat_begin, flat_begin), end = std::min(tensor.flat_end, flat_end);
    if (begin >= end) continue;
    float* at = to + (begin - flat_begin);
    if (tensor.init == model::Init::kOnes || tensor.init == model::Init::kZeros) {
      ops.Fill(stream, end - begin, tensor.init == model::Init::kOnes ? 1.0f : 0.0f, at);
      continue;
    }
    const int64_t first = begin - tensor.flat_begin, last = end - tensor.flat_begin;
    if (spec_.part().count > 1) ops.Zero(stream, at, (end - begin) * device::DTypeBytes(device::DType::kF32));
    for (const model::WholeRun& run : RunsOfPart(tensor.whole_shape, tensor.cut, spec_.part(), first, last)) {
      ops.FillNormal(stream, {.count = run.elements,
                              .seed = seed,
                              .stream_id = t,
                              .first = run.whole_begin,
                              .deviation = static_cast<float>(spec_.Deviation(tensor)),
                              .to = at + (run.begin - first)});
    }
  }
}

std::vector<coordinator::PlacedRange> TrainingState::RangesToLoad() const {
  std::vector<coordinator::PlacedRange> ranges;
  for (int u = 0; u < layout_.units(); ++u) {
    ZeroLayout::UpdatedRange piece = layout_.Updated(u);
    if (piece.elements() > 0) ranges.push_back({piece.flat_begin, piece.flat_end, piece.state_offset});
  }
  return ranges;
}

std::vector<coordinator::PlacedRange> TrainingState::RangesToStore() const {
  std::vector<coordinator::PlacedRange> ranges;
  for (int u = 0; u < layout_.units(); ++u) {
    coordinator::PlacedRange owned = layout_.Owned(u);
    if (owned.elements() == 0 || layout_.frozen(u)) continue;
    owned.offset = layout_.TrainedShardOffset(u, layout_.stage().split_optimizer);
    ranges.push_back(owned);
  }
  return ranges;
}

}  // namespace zerofleet::zero
