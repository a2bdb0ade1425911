// Gradients down, tiles up; see host_updater.h.
#include "worker/zero/host_updater.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "worker/zero/device_updater.h"
#include "worker/zero/memory_plan.h"

namespace zerofleet::zero {
namespace {

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
  rows.push_back({memory::Space::kHost, memory::Category::kGradients, kGradientsRow, gradients});
  if (layout.delays()) {
    rows.push_back({memory::Space::kHost, memory::Category::kGradients, kHeldRow, gradients});
  }
  if (NeedsTiles(layout)) {
    rows.push_back({memory::Space::kHost, memory::Category::kBuffers, kTilesRow,
                    kTiles * TileElements(layout) * device::DTypeBytes(layout.options().dtype)});
  }
  rows.push_back({memory::Space::kHost, memory::Category::kBuffers, kDecidedRow,
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
      file_(MakeFile(parts)),
      state_(parts.spec, parts.layout, parts.device_arena, parts.host_arena, file_ ? &*file_ : nullptr),
      expected_(parts.layout.units()),
      taken_(parts.layout.units()),
      updated_(parts.layout.units()) {
  for (int u = 0; u <= parts.layout.units(); ++u) {
    const auto is_before = [](const StateTile& tile, int unit) { return tile.unit < unit; };
    const auto first = std::lower_bound(state_tiles_.begin(), state_tiles_.end(), u, is_before);
    first_tile_.push_back(static_cast<size_t>(first - state_tiles_.begin()));
  }
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
    Fail(made.status());
    if (made.ok()) *stream = *std::move(made);
  }
  if (parts_.layout.speculates()) speculation_.emplace(parts_.layout, host_, parts_.host_arena);
  if (!parts_.device.host_addressable()) thread_ = std::make_unique<JobThread>();
}

// What is still on its way uses memory of the arenas.
HostUpdater::~HostUpdater() {
  constexpr double kDrainLimitSeconds = 10;
  stopping_ = true;
  thread_.reset();
  for (const std::unique_ptr<device::Stream>* const stream : {&down_, &up_}) {
    if (*stream != nullptr) (*stream)->Record()->SettledWithin(kDrainLimitSeconds);
  }
}

void HostUpdater::Fail(const absl::Status& status) {
  if (status.ok()) return;
  absl::MutexLock lock(&mutex_);
  failure_.Update(status);
}

LinkTraffic HostUpdater::link() const {
  absl::MutexLock lock(&mutex_);
  return link_;
}

void HostUpdater::Count(LinkTraffic::Direction LinkTraffic::*direction, int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  ++(link_.*direction).copies;
  (link_.*direction).bytes += bytes;
}

// By the device's ops, which reach the host's memory, so that the weights are those that every rank makes for itself.
absl::Status HostUpdater::Initialize(uint64_t seed) {
  {
    absl::MutexLock lock(&mutex_);
    ZF_RETURN_IF_ERROR(failure_);
  }
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

// The thread waits for the reduction, so that the copy begins as soon as it is done.
void HostUpdater::ExpectGradient(int unit, device::Tensor gradient, const collective::Communicator::Pending& reduced) {
  if (thread_ == nullptr) return;
  expected_[unit] = true;
  thread_->Post([this, step = filling_, unit, gradient, reduced] {
    Fail(reduced.MakeStreamWait(*down_));
    Fail(CopyDown(step, unit, gradient));
    std::shared_ptr<device::Event> copied = down_->Record();
    absl::MutexLock lock(&mutex_);
    taken_[unit] = std::move(copied);
  });
}

absl::StatusOr<std::shared_ptr<device::Event>> HostUpdater::AwaitJob(Events HostUpdater::*events, int unit) {
  absl::MutexLock lock(&mutex_);
  const auto done = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return (this->*events)[unit] != nullptr || !failure_.ok();
  };
  mutex_.Await(absl::Condition(&done));
  ZF_RETURN_IF_ERROR(failure_);
  return std::exchange((this->*events)[unit], nullptr);
}

absl::Status HostUpdater::TakeGradient(int unit, device::Tensor gradient) {
  if (thread_ == nullptr) {
    down_->Wait(*parts_.stream.Record());
    ZF_RETURN_IF_ERROR(CopyDown(filling_, unit, gradient));
    parts_.stream.Wait(*down_->Record());
    return speculation_ && speculation_->guessing() ? UpdateAhead(unit) : absl::OkStatus();
  }
  if (!expected_[unit]) {
    thread_->Post([this, step = filling_, unit, gradient, reduced = parts_.stream.Record()] {
      down_->Wait(*reduced);
      Fail(CopyDown(step, unit, gradient));
    });
  }
  expected_[unit] = false;
  if (!parts_.layout.gradients_offloaded()) return absl::OkStatus();
  ZF_ASSIGN_OR_RETURN(const std::shared_ptr<device::Event> copied, AwaitJob(&HostUpdater::taken_, unit));
  parts_.stream.Wait(*copied);
  return absl::OkStatus();
}

void HostUpdater::Speculate(const device::StepControl& before, const device::StepRule& rule) {
  ZF_CHECK(thread_ == nullptr);
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
    ZF_RETURN_IF_ERROR(StartUpdate(filling_, parameters));
    UpdateOnDevice(parts_, state_, control, gradients, parameters);
    return absl::OkStatus();
  }
  const int before = std::exchange(held_, filling_);
  filling_ = 1 - filling_;
  return StartUpdate(before, parameters);
}

absl::StatusOr<bool> HostUpdater::Flush(device::Tensor parameters) {
  if (held_ == kNone) return false;
  ZF_RETURN_IF_ERROR(StartUpdate(std::exchange(held_, kNone), parameters));
  return true;
}

absl::Status HostUpdater::StartUpdate(int step, device::Tensor parameters) {
  parameters_ = parameters;
  if (thread_ == nullptr) {
    ZF_RETURN_IF_ERROR(parts_.stream.Synchronize());
    ZF_RETURN_IF_ERROR(ReadControl(step));
    is_ahead_ = false;
    if (!speculation_ || !speculation_->guessing()) return absl::OkStatus();
    ZF_ASSIGN_OR_RETURN(is_ahead_, speculation_->End(*host_stream_, control_, state_));
    return host_stream_->Synchronize();
  }
  thread_->Post([this, step, decided = parts_.stream.Record()] { Fail(UpdateAll(step, *decided)); });
  return absl::OkStatus();
}

absl::Status HostUpdater::ReadControl(int step) {
  control_ = {};  // an update of nothing
  if (step == kNone) return absl::OkStatus();
  gradients_ = steps_[step].gradients;
  host_.Copy(*host_stream_, &control_, steps_[step].decided, sizeof control_);
  return host_stream_->Synchronize();
}

// Behind `decided` nothing reads the parameters until FinishUnit.
absl::Status HostUpdater::UpdateAll(int step, const device::Event& decided) {
  ZF_RETURN_IF_ERROR(Await(decided));
  ZF_RETURN_IF_ERROR(ReadControl(step));
  ZF_RETURN_IF_ERROR(Await(*down_->Record()));
  for (int u = 0; u < parts_.layout.units(); ++u) {
    ZF_RETURN_IF_ERROR(UpdateUnit(u));
    std::shared_ptr<device::Event> sent = up_->Record();
    absl::MutexLock lock(&mutex_);
    updated_[u] = std::move(sent);
  }
  return absl::OkStatus();
}

absl::Status HostUpdater::FinishUnit(int unit) {
  if (thread_ == nullptr) {
    ZF_RETURN_IF_ERROR(UpdateUnit(unit));
    parts_.stream.Wait(*up_->Record());
    return absl::OkStatus();
  }
  ZF_ASSIGN_OR_RETURN(const std::shared_ptr<device::Event> sent, AwaitJob(&HostUpdater::updated_, unit));
  parts_.stream.Wait(*sent);
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
  if (control_.apply == 0) return absl::OkStatus();
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
    parts_.layout.optimizer().update(host_.ops(), *host_stream_,
                                     {.segments = segments,
                                      .control = &control,
                                      .gradient = GradientAt(gradients, place.state_offset),
                                      .states = states,
                                      .parameter = to});
  });
}

absl::Status HostUpdater::SendMaster(int unit, device::Tensor parameters) {
  return SendUnit(unit, parameters, [&](size_t tile, device::Tensor to) {
    return WithStates(tile, /*changes=*/false, [&](const optim::StateTensors& states) {
      host_.ops().Convert(*host_stream_, state_tiles_[tile].count, states[0], to);
    });
  });
}

absl::Status HostUpdater::Publish(device::Tensor parameters) {
  held_ = kNone;
  PublishOnDevice(parts_, state_, parameters);
  up_->Wait(*parts_.stream.Record());
  for (int u = 0; u < parts_.layout.units(); ++u) ZF_RETURN_IF_ERROR(SendMaster(u, parameters));
  parts_.stream.Wait(*up_->Record());
  return absl::OkStatus();
}

}  // namespace zerofleet::zero
