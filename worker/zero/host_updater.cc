// Gradients down, tiles up; see host_updater.h.
#include "worker/zero/host_updater.h"

#include <algorithm>

#include "base/status.h"
#include "worker/zero/memory_plan.h"

namespace zerofleet::zero {
namespace {

constexpr const char* kTilesRow = "parameter tiles";

// The rules of elements [begin, begin + count) of a piece, by offset from `begin`.
std::vector<device::DecaySegment> Within(const std::vector<device::DecaySegment>& segments, int64_t begin,
                                         int64_t count) {
  std::vector<device::DecaySegment> within;
  for (const device::DecaySegment& segment : segments) {
    const int64_t from = std::max(segment.offset, begin);
    const int64_t to = std::min(segment.offset + segment.count, begin + count);
    if (from < to) within.push_back({from - begin, to - from, segment.decay});
  }
  return within;
}

}  // namespace

int64_t HostUpdater::TileElements(const ZeroLayout& layout) {
  int64_t most = 0;
  for (int u = 0; u < layout.units(); ++u) most = std::max(most, layout.partition().ShardElements(u));
  return std::min(most, kTileElements);
}

std::vector<memory::MemoryRow> HostUpdater::Rows(const ZeroLayout& layout) {
  std::vector<memory::MemoryRow> rows = TrainingState::Rows(layout, memory::Space::kHost);
  rows.push_back({memory::Space::kHost, memory::Category::kGradients, kGradientsRow,
                  layout.optimizer_elements() * device::DTypeBytes(layout.gradient_dtype())});
  rows.push_back({memory::Space::kHost, memory::Category::kBuffers, kTilesRow,
                  kTiles * TileElements(layout) * device::DTypeBytes(layout.options().dtype)});
  return rows;
}

HostUpdater::HostUpdater(const UpdaterParts& parts)
    : parts_(parts),
      host_(parts.device.host()),
      host_stream_(host_.CreateStream().value()),
      state_(parts.spec, parts.layout, parts.host_arena),
      gradients_{parts.host_arena.Take(kGradientsRow), parts.layout.gradient_dtype()} {
  const device::Tensor tiles{parts.host_arena.Take(kTilesRow), parts.layout.options().dtype};
  for (int t = 0; t < kTiles; ++t) tiles_[t].memory = tiles.Offset(t * TileElements(parts.layout));
}

// By the device's ops, which reach the host's memory, so that the weights are those that every rank makes for itself.
absl::Status HostUpdater::Initialize(uint64_t seed) {
  state_.Initialize(seed, parts_.device.ops(), parts_.stream);
  return parts_.stream.Synchronize();
}

absl::Status HostUpdater::TakeGradient(int unit, device::Tensor gradient) {
  const ZeroLayout::Piece piece = parts_.layout.Updated(unit);
  const int64_t bytes = piece.elements() * device::DTypeBytes(gradient.dtype);
  if (bytes == 0) return absl::OkStatus();
  parts_.device.Copy(parts_.stream, gradients_.Offset(piece.state_offset).data, gradient.data, bytes);
  ++link_.to_host.copies;
  link_.to_host.bytes += bytes;
  return absl::OkStatus();
}

// The control's copy comes behind the gradients': when it is here, so are they.
absl::Status HostUpdater::Update(const device::StepControl* control, device::Tensor, device::Tensor parameters) {
  parameters_ = parameters;
  parts_.device.Copy(parts_.stream, &control_, control, sizeof control_);
  return parts_.stream.Synchronize();
}

template <typename Make>
absl::Status HostUpdater::SendUnit(int unit, device::Tensor parameters, const Make& make) {
  const ZeroLayout::Piece piece = parts_.layout.Updated(unit);
  const int64_t most = TileElements(parts_.layout);
  for (int64_t begin = 0; begin < piece.elements(); begin += most) {
    const int64_t count = std::min(most, piece.elements() - begin);
    Tile& tile = tiles_[next_tile_];
    next_tile_ = (next_tile_ + 1) % kTiles;
    if (tile.sent != nullptr) ZF_RETURN_IF_ERROR(tile.sent->Wait());
    make(begin, count, tile.memory);
    const int64_t bytes = count * device::DTypeBytes(tile.memory.dtype);
    parts_.device.Copy(parts_.stream, parameters.Offset(piece.parameter_offset + begin).data, tile.memory.data, bytes);
    tile.sent = parts_.stream.Record();
    ++link_.to_device.copies;
    link_.to_device.bytes += bytes;
  }
  return host_stream_->Synchronize();
}

absl::Status HostUpdater::FinishUnit(int unit) {
  if (control_.apply == 0) return absl::OkStatus();
  const int64_t offset = parts_.layout.Updated(unit).state_offset;
  return SendUnit(unit, parameters_, [&](int64_t begin, int64_t count, device::Tensor tile) {
    parts_.layout.optimizer().update(host_.ops(), *host_stream_,
                                     {.segments = Within(state_.Segments(unit), begin, count),
                                      .control = &control_,
                                      .gradient = gradients_.Offset(offset + begin),
                                      .states = state_.At(offset + begin),
                                      .parameter = tile});
  });
}

absl::Status HostUpdater::Publish(device::Tensor parameters) {
  for (int u = 0; u < parts_.layout.units(); ++u) {
    const int64_t offset = parts_.layout.Updated(u).state_offset;
    ZF_RETURN_IF_ERROR(SendUnit(u, parameters, [&](int64_t begin, int64_t count, device::Tensor tile) {
      host_.ops().Convert(*host_stream_, count, state_.At(offset + begin)[0], tile);
    }));
  }
  return absl::OkStatus();
}

}  // namespace zerofleet::zero
