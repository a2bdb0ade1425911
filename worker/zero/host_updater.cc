// Gradients down, tiles up; see host_updater.h.
#include "worker/zero/host_updater.h"

#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "worker/zero/device_updater.h"
#include "worker/zero/memory_plan.h"

namespace zerofleet::zero {
namespace {

using memory::Category;
using memory::Space;

constexpr const char* kTilesRow = "parameter tiles";
constexpr const char* kDecidedRow = "step control of the update";
constexpr const char* kHeldRow = "gradients held back";

std::optional<StateFile> MakeFile(const UpdaterParts& parts) {
  if (parts.scratch == nullptr) return std::nullopt;
  return std::optional<StateFile>(std::in_place, parts.layout, *parts.scratch, parts.host_arena);
}

// States that come and go, and a copy of them, are tiles of their own size.
int64_t MostElements(const UpdaterParts& parts) {
  const bool stays = !parts.layout.states_in_file() && !parts.layout.speculates();
  return stays && parts.device.host_addressable() ? kMostInPlaceElements : kMostTileElements;
}

}  // namespace

std::vector<memory::MemoryRow> HostUpdater::Rows(const ZeroLayout& layout) {
  std::vector<memory::MemoryRow> rows = TrainingState::Rows(layout);
  const int64_t gradients = layout.states_on_host() * device::DTypeBytes(layout.gradient_dtype());
  rows.push_back({Space::kHost, Category::kGradients, kGradientsRow, gradients});
  if (layout.delays()) rows.push_back({Space::kHost, Category::kGradients, kHeldRow, gradients});
  if (NeedsTiles(layout)) {
    rows.push_back({Space::kHost, Category::kBuffers, kTilesRow,
                    kTiles * TileElements(layout) * device::DTypeBytes(layout.options().dtype)});
  }
  rows.push_back({Space::kHost, Category::kBuffers, kDecidedRow,
                  (layout.delays() ? 2 : 1) * static_cast<int64_t>(sizeof(device::StepControl))});
  for (const std::vector<memory::MemoryRow>& more : {Speculation::Rows(layout), StateFile::Rows(layout)}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

HostUpdater::HostUpdater(const UpdaterParts& parts)
    : parts_(parts),
      host_(parts.device.host()),
      host_stream_(host_.CreateStream().value()),
      state_tiles_(StateTiles(parts.layout, MostElements(parts))),
      first_tile_(parts.layout.units() + 1),
      file_(MakeFile(parts)),
      state_(parts.spec, parts.layout, parts.device_arena, parts.host_arena, file_ ? &*file_ : nullptr),
      expected_(parts.layout.units()),
      taken_(parts.layout.units()),
      updated_(parts.layout.units()),
      jobs_(/*has_thread=*/updates_behind()) {
  for (const StateTile& tile : state_tiles_) ++first_tile_[tile.unit + 1];
  std::partial_sum(first_tile_.begin(), first_tile_.end(), first_tile_.begin());
  auto* const decided = parts.host_arena.TakeAs<device::StepControl>(kDecidedRow);
  steps_.push_back({{parts.host_arena.Take(kGradientsRow), parts.layout.gradient_dtype()}, decided});
  if (parts.layout.delays()) {
    steps_.push_back({{parts.host_arena.Take(kHeldRow), parts.layout.gradient_dtype()}, decided + 1});
  }
  if (NeedsTiles(parts.layout)) {
    const device::Tensor tiles{parts.host_arena.Take(kTilesRow), parts.layout.options().dtype};
    for (int t = 0; t < kTiles; ++t) tiles_[t].memory = tiles.Offset(t * TileElements(parts.layout));
  }
  for (std::unique_ptr<device::Stream>* const stream : {&down_, &up_}) {
    absl::StatusOr<std::unique_ptr<device::Stream>> made = parts_.device.CreateStream();
    streams_made_.Update(made.status());
    if (made.ok()) *stream = *std::move(made);
  }
  if (parts_.layout.speculates()) speculation_.emplace(parts_.layout, host_, parts_.host_arena);
}

// What is still on its way uses memory of the arenas.
HostUpdater::~HostUpdater() {
  constexpr double kDrainLimitSeconds = 10;
  stopping_ = true;
  jobs_.Stop();
  for (const std::unique_ptr<device::Stream>* const stream : {&down_, &up_}) {
    if (*stream != nullptr) (*stream)->Record()->SettledWithin(kDrainLimitSeconds);
  }
}

LinkTraffic HostUpdater::link() const {
  absl::MutexLock lock(&mutex_);
  return link_;
}

void HostUpdater::Count(LinkTraffic::Direction LinkTraffic::*direction, int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  (link_.*direction).Add(bytes);
}

// By the device's ops, which reach the host's memory, so that the weights are those that every rank makes for itself.
absl::Status HostUpdater::Initialize(uint64_t seed) {
  ZF_RETURN_IF_ERROR(streams_made_);
  held_ = kNone;
  ZF_RETURN_IF_ERROR(state_.Initialize(seed, parts_.device.ops(), parts_.stream));
  return parts_.stream.Synchronize();
}

absl::Status HostUpdater::CopyDown(int step, int unit, device::Tensor gradient) {
  const ZeroLayout::Piece piece = parts_.layout.Updated(unit);
  const int64_t stays = parts_.layout.StaysOnDevice(unit);
  const int64_t bytes = (piece.elements() - stays) * device::DTypeBytes(gradient.dtype);
  if (bytes == 0) return absl::OkStatus();
  parts_.device.Copy(*down_, GradientAt(steps_[step].gradients, piece.state_offset + stays).data,
                     gradient.Offset(stays).data, bytes);
  Count(&LinkTraffic::to_host, bytes);
  return down_->failure();
}

void HostUpdater::Post(UnitJob& unit_job, const std::unique_ptr<device::Stream>& stream, JobQueue::Job job) {
  unit_job.number = jobs_.Post([&unit_job, &stream, job = std::move(job)] {
    ZF_RETURN_IF_ERROR(job());
    unit_job.done = stream->Record();
    return absl::OkStatus();
  });
}

// The job waits for the reduction, so that on a thread the copy begins as soon as it is done.
void HostUpdater::ExpectGradient(int unit, device::Tensor gradient, const collective::Communicator::Pending& reduced) {
  expected_[unit] = true;
  Post(taken_[unit], down_, [this, step = filling_, unit, gradient, reduced] {
    ZF_RETURN_IF_ERROR(reduced.MakeStreamWait(*down_));
    return CopyDown(step, unit, gradient);
  });
}

absl::Status HostUpdater::TakeGradient(int unit, device::Tensor gradient) {
  if (!expected_[unit]) {
    Post(taken_[unit], down_, [this, step = filling_, unit, gradient, reduced = parts_.stream.Record()] {
      down_->Wait(*reduced);
      return CopyDown(step, unit, gradient);
    });
  }
  expected_[unit] = false;
  ZF_RETURN_IF_ERROR(jobs_.Await(taken_[unit].number));
  if (parts_.layout.gradients_offloaded()) parts_.stream.Wait(*taken_[unit].done);
  return speculation_ && speculation_->guessing() ? UpdateAhead(unit) : absl::OkStatus();
}

void HostUpdater::Speculate(const device::StepControl& before, const device::StepRule& rule) {
  ZF_CHECK(!updates_behind());
  speculation_->Begin(before, rule);
}

absl::Status HostUpdater::UpdateAhead(int unit) {
  ZF_RETURN_IF_ERROR(down_->Synchronize());
  for (size_t t = first_tile_[unit]; t < first_tile_[unit + 1]; ++t) {
    ZF_RETURN_IF_ERROR(speculation_->Keep(*host_stream_, state_, state_tiles_[t].state_offset, state_tiles_[t].count));
    ZF_RETURN_IF_ERROR(UpdateTile(speculation_->guess(), steps_[filling_].gradients, t, tiles_.front().memory));
  }
  return host_stream_->Synchronize();
}

absl::Status HostUpdater::Update(const device::StepControl* control, device::Tensor gradients,
                                 device::Tensor parameters, bool delayed) {
  parts_.device.Copy(parts_.stream, steps_[filling_].decided, control, sizeof *control);
  if (!delayed) {
    ZF_CHECK(held_ == kNone);
    StartUpdate(filling_, parameters, /*flushes=*/false);
    UpdateOnDevice(parts_, state_, control, gradients, parameters);
    return absl::OkStatus();
  }
  const int before = std::exchange(held_, filling_);
  filling_ = 1 - filling_;
  StartUpdate(before, parameters, /*flushes=*/false);
  return absl::OkStatus();
}

absl::StatusOr<bool> HostUpdater::Flush(device::Tensor parameters) {
  if (held_ == kNone) return false;
  StartUpdate(std::exchange(held_, kNone), parameters, /*flushes=*/true);
  return true;
}

// Behind `decided` nothing reads the parameters until FinishUnit.
void HostUpdater::StartUpdate(int step, device::Tensor parameters, bool flushes) {
  jobs_.Post([this, step, parameters, flushes, decided = parts_.stream.Record()] {
    parameters_ = parameters;
    return ReadControl(step, *decided, flushes);
  });
  for (int u = 0; u < parts_.layout.units(); ++u) Post(updated_[u], up_, [this, u] { return UpdateUnit(u); });
}

absl::Status HostUpdater::ReadControl(int step, const device::Event& decided, bool flushes) {
  ZF_RETURN_IF_ERROR(Await(decided));
  control_ = {};  // an update of nothing
  is_ahead_ = false;
  flushes_ = flushes;
  if (step != kNone) {
    gradients_ = steps_[step].gradients;
    host_.Copy(*host_stream_, &control_, steps_[step].decided, sizeof control_);
    ZF_RETURN_IF_ERROR(host_stream_->Synchronize());
    if (flushes) control_.factors.looks_ahead = 0;
  }
  ZF_RETURN_IF_ERROR(Await(*down_->Record()));
  if (!speculation_ || !speculation_->guessing()) return absl::OkStatus();
  ZF_ASSIGN_OR_RETURN(is_ahead_, speculation_->End(*host_stream_, control_, state_));
  return host_stream_->Synchronize();
}

absl::Status HostUpdater::FinishUnit(int unit) {
  ZF_RETURN_IF_ERROR(jobs_.Await(updated_[unit].number));
  parts_.stream.Wait(*updated_[unit].done);
  return absl::OkStatus();
}

absl::Status HostUpdater::Await(const device::Event& event) const {
  constexpr double kPollSeconds = 0.05;
  while (!event.SettledWithin(kPollSeconds)) {
    if (stopping_) return absl::CancelledError("the view is being left");
  }
  return event.Wait();
}

absl::Status HostUpdater::SendUnit(int unit, device::Tensor parameters, const Make& make) {
  const ZeroLayout::Piece piece = parts_.layout.Updated(unit);
  for (size_t t = first_tile_[unit]; t < first_tile_[unit + 1]; ++t) {
    const device::Tensor to = parameters.Offset(piece.parameter_offset + state_tiles_[t].begin);
    const int64_t bytes = state_tiles_[t].count * device::DTypeBytes(to.dtype);
    // The host's stores are the copy where they reach the device's memory.
    if (parts_.layout.parameters_on_host() || parts_.device.host_addressable()) {
      ZF_RETURN_IF_ERROR(make(t, to));
      if (!parts_.layout.parameters_on_host()) Count(&LinkTraffic::to_device, bytes);
      continue;
    }
    Tile& tile = tiles_[next_tile_];
    next_tile_ = (next_tile_ + 1) % kTiles;
    if (tile.sent != nullptr) ZF_RETURN_IF_ERROR(Await(*tile.sent));
    ZF_RETURN_IF_ERROR(make(t, tile.memory));
    parts_.device.Copy(*up_, to.data, tile.memory.data, bytes);
    tile.sent = up_->Record();
    Count(&LinkTraffic::to_device, bytes);
  }
  ZF_RETURN_IF_ERROR(host_stream_->Synchronize());
  return up_->failure();
}

absl::Status HostUpdater::UpdateUnit(int unit) {
  // The parameters may be ahead of the weights, though this step updates nothing.
  if (control_.apply == 0) return flushes_ ? SendMaster(unit, parameters_) : absl::OkStatus();
  if (is_ahead_) return SendMaster(unit, parameters_);
  return SendUnit(unit, parameters_,
                  [&](size_t tile, device::Tensor to) { return UpdateTile(control_, gradients_, tile, to); });
}

absl::Status HostUpdater::WithStates(size_t tile, bool changes,
                                     const std::function<void(const optim::StateTensors&)>& use) {
  if (!file_) {
    use(state_.At(state_tiles_[tile].state_offset));
    return absl::OkStatus();
  }
  ZF_ASSIGN_OR_RETURN(const optim::StateTensors states, file_->Open(tile));
  use(states);
  ZF_RETURN_IF_ERROR(host_stream_->Synchronize());
  file_->Close(tile, changes);
  return absl::OkStatus();
}

absl::Status HostUpdater::UpdateTile(const device::StepControl& control, const device::Tensor& gradients, size_t tile,
                                     device::Tensor to) {
  const StateTile& place = state_tiles_[tile];
  const std::vector<device::DecaySegment> segments = state_.Segments(place.unit, place.begin, place.count);
  state_.gate().Await(place.state_offset, place.count);
  return WithStates(tile, /*changes=*/true, [&](const optim::StateTensors& states) {
    parts_.layout.optimizer().Apply(host_.ops(), *host_stream_,
                                    {.segments = segments,
                                     .control = &control,
                                     .gradient = GradientAt(gradients, place.state_offset),
                                     .states = states,
                                     .parameter = to});
  });
}

absl::Status HostUpdater::SendMaster(int unit, device::Tensor parameters, size_t vector) {
  return SendUnit(unit, parameters, [&](size_t tile, device::Tensor to) {
    return WithStates(tile, /*changes=*/false, [&](const optim::StateTensors& states) {
      host_.ops().Convert(*host_stream_, state_tiles_[tile].count, states[vector], to);
    });
  });
}

absl::Status HostUpdater::Publish(device::Tensor parameters, size_t vector) {
  ZF_RETURN_IF_ERROR(streams_made_);
  held_ = kNone;
  PublishOnDevice(parts_, state_, parameters, vector);
  up_->Wait(*parts_.stream.Record());
  for (int u = 0; u < parts_.layout.units(); ++u) ZF_RETURN_IF_ERROR(SendMaster(u, parameters, vector));
  parts_.stream.Wait(*up_->Record());
  return absl::OkStatus();
}

}  // namespace zerofleet::zero
