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

// Vectors that a pass over matrices opens: their momentum, or the weights and their average.
constexpr StateFile::Vectors kMomentum = StateFile::Vectors{1} << MuonMatrices::kMomentum;
constexpr StateFile::Vectors kWeights = StateFile::kAllVectors & ~(kMomentum | kMomentum << 1);

std::optional<StateFile> MakeFile(const UpdaterParts& parts) {
  if (parts.scratch == nullptr) return std::nullopt;
  return std::optional<StateFile>(std::in_place, parts.layout, *parts.scratch, parts.host_arena);
}

// Only where states stay in memory and parameters are stored in place may tiles be larger than kMostTileElements.
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
  const int64_t controls = layout.delays() || layout.speculates() ? 2 : 1;
  rows.push_back(
      {Space::kHost, Category::kBuffers, kDecidedRow, controls * static_cast<int64_t>(sizeof(device::StepControl))});
  std::vector<std::vector<memory::MemoryRow>> others = {Speculation::Rows(layout), StateFile::Rows(layout)};
  if (layout.optimizer().whole_matrices) others.push_back(MuonMatrices::Rows(layout));
  for (const std::vector<memory::MemoryRow>& more : others) rows.insert(rows.end(), more.begin(), more.end());
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
      computes_beside_(updates_behind() && parts.layout.delays() && !parts.layout.optimizer().whole_matrices &&
                       !parts.layout.parameters_on_host()),
      computed_(parts.layout.units()),
      computing_(/*has_thread=*/computes_beside_ || (updates_behind() && parts.layout.speculates())),
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
  if (parts_.layout.speculates()) {
    speculation_.emplace(parts_.layout, host_, parts_.host_arena);
    before_ = decided + 1;
    guessed_.resize(parts_.layout.units());
  }
  if (parts_.layout.optimizer().whole_matrices) matrices_.emplace(parts_, state_, host_, *host_stream_);
}

// Waits for copies under way, which use the arenas' memory.
HostUpdater::~HostUpdater() {
  constexpr double kDrainLimitSeconds = 10;
  stopping_ = true;
  computing_.Stop();
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

// Uses the device's ops, which reach the host's memory, so that the weights equal those that every rank makes for
// itself.
absl::Status HostUpdater::Initialize(uint64_t seed) {
  ZF_RETURN_IF_ERROR(streams_made_);
  held_ = kNone;
  ZF_RETURN_IF_ERROR(computing_.Await(computed_.back()));
  ZF_RETURN_IF_ERROR(state_.Initialize(seed, parts_.device.ops(), parts_.stream));
  return parts_.stream.Synchronize();
}

absl::Status HostUpdater::CopyDown(int step, int unit, device::Tensor gradient) {
  const ZeroLayout::UpdatedRange piece = parts_.layout.Updated(unit);
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
  Post(taken_[unit], down_, [this, step = filling_, unit, gradient, reduced, guesses = guesses_] {
    ZF_RETURN_IF_ERROR(reduced.MakeStreamWait(*down_));
    ZF_RETURN_IF_ERROR(CopyDown(step, unit, gradient));
    if (guesses) PostAhead(unit);
    return absl::OkStatus();
  });
}

absl::Status HostUpdater::TakeGradient(int unit, device::Tensor gradient) {
  if (!expected_[unit]) {
    Post(taken_[unit], down_,
         [this, step = filling_, unit, gradient, reduced = parts_.stream.Record(), guesses = guesses_] {
           down_->Wait(*reduced);
           ZF_RETURN_IF_ERROR(CopyDown(step, unit, gradient));
           if (guesses) PostAhead(unit);
           return absl::OkStatus();
         });
  }
  expected_[unit] = false;
  ZF_RETURN_IF_ERROR(jobs_.Await(taken_[unit].number));
  if (parts_.layout.gradients_offloaded()) parts_.stream.Wait(*taken_[unit].done);
  return updates_behind() ? absl::OkStatus() : computing_.Await(ahead_);
}

void HostUpdater::PostAhead(int unit) {
  if (!MayGuess(unit)) return;
  ahead_ = computing_.Post([this, unit, down = down_->Record()] { return UpdateAhead(unit, *down); });
}

// The job comes behind those of the last step's update, whose outcome the guess starts from; and before those of this
// step's gradients, so that before_ has been read when the next step begins.
void HostUpdater::Speculate(const device::StepControl* before, const device::StepRule& rule) {
  if (matrices_ && updates_behind()) return;  // FinishUnit posts its jobs behind this one
  guesses_ = true;
  parts_.device.Copy(parts_.stream, before_, before, sizeof *before);
  jobs_.Post([this, rule, begun = parts_.stream.Record()]() -> absl::Status {
    ZF_RETURN_IF_ERROR(Await(*begun));
    device::StepControl control;
    host_.Copy(*host_stream_, &control, before_, sizeof control);
    ZF_RETURN_IF_ERROR(host_stream_->Synchronize());
    speculation_->Begin(control, rule);
    learning_rate_ = rule.learning_rate;
    guessed_.assign(guessed_.size(), false);
    absl::MutexLock lock(&mutex_);
    decided_ = nullptr;
    return absl::OkStatus();
  });
}

bool HostUpdater::IsDecided() const {
  const std::shared_ptr<device::Event> decided = [&] {
    absl::MutexLock lock(&mutex_);
    return decided_;
  }();
  return decided != nullptr && decided->Reached().value_or(true);
}

bool HostUpdater::MayGuess(int unit) const {
  return !ExchangesUnit(unit) ||
         parts_.layout.TrainedShardOffset(unit, /*split=*/true) >= parts_.layout.states_on_device();
}

absl::Status HostUpdater::UpdateAhead(int unit, const device::Event& gradient_there) {
  ZF_RETURN_IF_ERROR(Await(gradient_there));
  if (IsDecided()) return absl::OkStatus();
  guessed_[unit] = true;
  const device::StepControl& guess = speculation_->guess();
  const device::Tensor& gradients = steps_[filling_].gradients;
  const bool exchanges = ExchangesUnit(unit);
  for (size_t t = first_tile_[unit]; t < first_tile_[unit + 1]; ++t) {
    ZF_RETURN_IF_ERROR(speculation_->Keep(*host_stream_, state_, state_tiles_[t].state_offset, state_tiles_[t].count));
    ZF_RETURN_IF_ERROR(exchanges ? DirectTile(guess, gradients, t, MuonDirection::kOfStep)
                                 : UpdateTile(guess, gradients, t, tiles_.front().memory));
  }
  ZF_RETURN_IF_ERROR(host_stream_->Synchronize());
  if (!exchanges) return absl::OkStatus();
  ZF_RETURN_IF_ERROR(matrices_->Exchange(unit));
  for (size_t t = first_tile_[unit]; t < first_tile_[unit + 1]; ++t) {
    ZF_RETURN_IF_ERROR(UpdateTile(guess, gradients, t, tiles_.front().memory));
  }
  return host_stream_->Synchronize();
}

absl::Status HostUpdater::Update(const device::StepControl* control, device::Tensor gradients,
                                 device::Tensor parameters, bool delayed) {
  parts_.device.Copy(parts_.stream, steps_[filling_].decided, control, sizeof *control);
  if (!delayed) {
    ZF_CHECK(held_ == kNone);
    StartUpdate({.step = filling_, .at_rest = gradients, .parameters = parameters});
    if (!matrices_) UpdateOnDevice(parts_, state_, control, gradients, parameters);
    return absl::OkStatus();
  }
  const int before = std::exchange(held_, filling_);
  filling_ = 1 - filling_;
  if (computes_beside_) {
    for (int u = 0; u < parts_.layout.units(); ++u) {
      // Nothing else makes the next step's backward wait until its gradients' memory has been read.
      if (taken_[u].done != nullptr) parts_.stream.Wait(*taken_[u].done);
      const int64_t computed = computed_[u];
      Post(updated_[u], up_, [this, u, before, computed, parameters, decided = parts_.stream.Record()] {
        up_->Wait(*decided);
        return before == kNone ? absl::OkStatus() : SendComputed(before, u, computed, parameters);
      });
    }
    StartComputing(held_);
    return absl::OkStatus();
  }
  StartUpdate(
      {.step = before, .at_rest = gradients, .parameters = parameters, .looks_ahead = parts_.layout.looks_ahead()});
  return absl::OkStatus();
}

absl::StatusOr<bool> HostUpdater::Flush(device::Tensor parameters) {
  if (held_ == kNone) return false;
  if (computes_beside_) {
    held_ = kNone;
    for (int u = 0; u < parts_.layout.units(); ++u) {
      Post(updated_[u], up_, [this, u, parameters, all = computed_.back()]() -> absl::Status {
        ZF_RETURN_IF_ERROR(computing_.Await(all));
        return SendMaster(u, parameters);
      });
    }
    return true;
  }
  StartUpdate({.step = std::exchange(held_, kNone), .at_rest = {}, .parameters = parameters, .flushes = true});
  return true;
}

void HostUpdater::StartComputing(int step) {
  computing_.Post([this, step, decided = parts_.stream.Record()]() -> absl::Status {
    ZF_RETURN_IF_ERROR(Await(*decided));
    host_.Copy(*host_stream_, &steps_[step].control, steps_[step].decided, sizeof(device::StepControl));
    return host_stream_->Synchronize();
  });
  for (int u = 0; u < parts_.layout.units(); ++u) {
    computed_[u] = computing_.Post([this, step, u, down = taken_[u].done]() -> absl::Status {
      if (down != nullptr) ZF_RETURN_IF_ERROR(Await(*down));
      return ComputeUnit(step, u);
    });
  }
}

// A parameter is no wider than its gradient, whose place it takes.
absl::Status HostUpdater::ComputeUnit(int step, int unit) {
  const Step& of = steps_[step];
  if (of.control.apply == 0) return absl::OkStatus();
  const device::Tensor& tile = tiles_.front().memory;
  for (size_t t = first_tile_[unit]; t < first_tile_[unit + 1]; ++t) {
    ZF_RETURN_IF_ERROR(UpdateTile(of.control, of.gradients, t, tile));
    host_.Copy(*host_stream_, GradientAt(of.gradients, state_tiles_[t].state_offset).data, tile.data,
               state_tiles_[t].count * device::DTypeBytes(tile.dtype));
  }
  return host_stream_->Synchronize();
}

absl::Status HostUpdater::SendComputed(int step, int unit, int64_t computed, device::Tensor parameters) {
  ZF_RETURN_IF_ERROR(computing_.Await(computed));
  const Step& of = steps_[step];
  if (of.control.apply == 0) return absl::OkStatus();
  const ZeroLayout::UpdatedRange piece = parts_.layout.Updated(unit);
  for (size_t t = first_tile_[unit]; t < first_tile_[unit + 1]; ++t) {
    const StateTile& place = state_tiles_[t];
    const int64_t bytes = place.count * device::DTypeBytes(parameters.dtype);
    parts_.device.Copy(*up_, parameters.Offset(piece.parameter_offset + place.begin).data,
                       GradientAt(of.gradients, place.state_offset).data, bytes);
    Count(&LinkTraffic::to_device, bytes);
  }
  return up_->failure();
}

// After `decided` nothing reads the parameters until FinishUnit.
void HostUpdater::StartUpdate(const Beginning& beginning) {
  looks_ahead_ = beginning.looks_ahead;
  const double learning_rate = beginning.step == kNone ? 0 : steps_[beginning.step].learning_rate;
  const std::shared_ptr<device::Event> decided = parts_.stream.Record();
  guesses_ = false;
  jobs_.Post([this, beginning, learning_rate, decided] { return ReadControl(beginning, learning_rate, *decided); });
  {
    absl::MutexLock lock(&mutex_);
    decided_ = decided;
  }
  if (matrices_) return;
  for (int u = 0; u < parts_.layout.units(); ++u) Post(updated_[u], up_, [this, u] { return UpdateUnit(u); });
}

absl::Status HostUpdater::ReadControl(const Beginning& beginning, double learning_rate, const device::Event& decided) {
  ZF_RETURN_IF_ERROR(Await(decided));
  ZF_RETURN_IF_ERROR(computing_.Await(ahead_));
  parameters_ = beginning.parameters;
  at_rest_ = beginning.at_rest;
  control_ = {};  // updates nothing
  is_ahead_ = false;
  flushes_ = beginning.flushes;
  learning_rate_ = learning_rate;
  if (beginning.step != kNone) {
    gradients_ = steps_[beginning.step].gradients;
    host_.Copy(*host_stream_, &control_, steps_[beginning.step].decided, sizeof control_);
    ZF_RETURN_IF_ERROR(host_stream_->Synchronize());
    if (beginning.flushes) control_.factors.looks_ahead = 0;
  }
  ZF_RETURN_IF_ERROR(Await(*down_->Record()));
  if (!speculation_ || !speculation_->guessing()) return absl::OkStatus();
  ZF_ASSIGN_OR_RETURN(is_ahead_, speculation_->End(*host_stream_, control_, state_));
  return host_stream_->Synchronize();
}

// Exchanges the step's direction; where the parameters are to be ahead of the weights, also moves the weights and
// exchanges the direction ahead.
absl::Status HostUpdater::PrepareMatrices(int unit) {
  ZF_RETURN_IF_ERROR(DirectAndExchange(unit, MuonDirection::kOfStep));
  if (!looks_ahead_) return absl::OkStatus();
  ZF_RETURN_IF_ERROR(jobs_.Await(jobs_.Post([this, unit] {
    if (control_.apply == 0) return absl::OkStatus();
    ZF_CHECK(control_.factors.looks_ahead != 0);
    for (size_t t = first_tile_[unit]; t < first_tile_[unit + 1]; ++t) ZF_RETURN_IF_ERROR(MoveTile(t));
    return host_stream_->Synchronize();
  })));
  return DirectAndExchange(unit, MuonDirection::kAhead);
}

absl::Status HostUpdater::DirectAndExchange(int unit, MuonDirection direction) {
  ZF_RETURN_IF_ERROR(jobs_.Await(jobs_.Post([this, unit, direction] {
    if (control_.apply == 0 || IsAhead(unit)) return absl::OkStatus();
    if (parts_.layout.StaysOnDevice(unit) > 0) matrices_->Direct(StayingPiece(unit), direction);
    for (size_t t = first_tile_[unit]; t < first_tile_[unit + 1]; ++t) {
      ZF_RETURN_IF_ERROR(DirectTile(control_, gradients_, t, direction));
    }
    return host_stream_->Synchronize();
  })));
  return IsAhead(unit) ? absl::OkStatus() : matrices_->Exchange(unit);
}

absl::Status HostUpdater::DirectTile(const device::StepControl& control, const device::Tensor& gradients, size_t tile,
                                     MuonDirection direction) {
  const StateTile& place = state_tiles_[tile];
  const bool moves = direction == MuonDirection::kOfStep;
  if (moves) state_.gate().Await(place.state_offset, place.count);
  return WithStates(tile, kMomentum, moves, [&](const optim::StateTensors& states) {
    matrices_->Direct(PieceOf(control, gradients, tile, states), direction);
  });
}

absl::Status HostUpdater::MoveTile(size_t tile) {
  return WithStates(tile, kWeights, /*changes=*/true, [&](const optim::StateTensors& states) {
    matrices_->MoveWeights(PieceOf(control_, gradients_, tile, states));
  });
}

MuonPiece HostUpdater::PieceOf(const device::StepControl& control, const device::Tensor& gradients, size_t tile,
                               const optim::StateTensors& states) const {
  const StateTile& place = state_tiles_[tile];
  return {.unit = place.unit,
          .begin = place.begin,
          .count = place.count,
          .control = &control,
          .learning_rate = learning_rate_,
          .gradient = GradientAt(gradients, place.state_offset),
          .states = states};
}

MuonPiece HostUpdater::StayingPiece(int unit) const {
  ZF_CHECK(parts_.device.host_addressable());
  const ZeroLayout::UpdatedRange place = parts_.layout.Updated(unit);
  const int64_t count = parts_.layout.StaysOnDevice(unit);
  state_.gate().Await(place.state_offset, count);
  return {.unit = unit,
          .begin = 0,
          .count = count,
          .control = &control_,
          .learning_rate = learning_rate_,
          .gradient = at_rest_.Offset(place.gradient_offset),
          .states = state_.At(place.state_offset),
          .parameter = parameters_.Offset(place.parameter_offset)};
}

absl::Status HostUpdater::FinishUnit(int unit) {
  if (ExchangesUnit(unit)) ZF_RETURN_IF_ERROR(PrepareMatrices(unit));
  if (matrices_) Post(updated_[unit], up_, [this, unit] { return UpdateUnit(unit); });
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
  const ZeroLayout::UpdatedRange piece = parts_.layout.Updated(unit);
  for (size_t t = first_tile_[unit]; t < first_tile_[unit + 1]; ++t) {
    const device::Tensor to = parameters.Offset(piece.parameter_offset + state_tiles_[t].begin);
    const int64_t bytes = state_tiles_[t].count * device::DTypeBytes(to.dtype);
    // Where the host's stores reach the device's memory, they replace the copy.
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
  // The parameters may be ahead of the weights even if this step updates nothing.
  if (control_.apply == 0) return flushes_ ? SendMaster(unit, parameters_) : absl::OkStatus();
  if (matrices_ && parts_.layout.StaysOnDevice(unit) > 0) matrices_->Update(StayingPiece(unit));
  if (IsAhead(unit)) return SendMaster(unit, parameters_);
  return SendUnit(unit, parameters_,
                  [&](size_t tile, device::Tensor to) { return UpdateTile(control_, gradients_, tile, to); });
}

// With several passes over a unit's tiles, reading ahead stops at the end of the unit.
absl::Status HostUpdater::WithStates(size_t tile, StateFile::Vectors vectors, bool changes,
                                     const std::function<void(const optim::StateTensors&)>& use) {
  if (!file_) {
    use(state_.At(state_tiles_[tile].state_offset));
    return absl::OkStatus();
  }
  const bool reads_on = !matrices_ || tile + 1 < first_tile_[state_tiles_[tile].unit + 1];
  ZF_ASSIGN_OR_RETURN(const optim::StateTensors states, file_->Open(tile, vectors, reads_on));
  use(states);
  ZF_RETURN_IF_ERROR(host_stream_->Synchronize());
  file_->Close(tile, changes);
  return absl::OkStatus();
}

absl::Status HostUpdater::UpdateTile(const device::StepControl& control, const device::Tensor& gradients, size_t tile,
                                     device::Tensor to) {
  const StateTile& place = state_tiles_[tile];
  state_.gate().Await(place.state_offset, place.count);
  return WithStates(tile, StateFile::kAllVectors, /*changes=*/true, [&](const optim::StateTensors& states) {
    if (matrices_) {
      MuonPiece piece = PieceOf(control, gradients, tile, states);
      piece.parameter = to;
      control.factors.looks_ahead != 0 ? matrices_->UpdateAhead(piece) : matrices_->Update(piece);
      return;
    }
    const std::vector<device::DecaySegment> segments = state_.Segments(place.unit, place.begin, place.count);
    parts_.layout.optimizer().Apply(host_.ops(), *host_stream_,
                                    {.segments = segments,
                                     .control = &control,
                                     .gradient = GradientAt(gradients, place.state_offset),
                                     .states = states,
                                     .parameter = to,
                                     .assigned = parts_.layout.assigned(place.unit)});
  });
}

absl::Status HostUpdater::SendMaster(int unit, device::Tensor parameters, size_t vector) {
  return SendUnit(unit, parameters, [&](size_t tile, device::Tensor to) {
    return WithStates(tile, StateFile::kAllVectors, /*changes=*/false, [&](const optim::StateTensors& states) {
      host_.ops().Convert(*host_stream_, state_tiles_[tile].count, states[vector], to);
    });
  });
}

absl::Status HostUpdater::Publish(device::Tensor parameters, size_t vector) {
  ZF_RETURN_IF_ERROR(streams_made_);
  held_ = kNone;
  ZF_RETURN_IF_ERROR(computing_.Await(computed_.back()));
  PublishOnDevice(parts_, state_, parameters, vector);
  up_->Wait(*parts_.stream.Record());
  for (int u = 0; u < parts_.layout.units(); ++u) ZF_RETURN_IF_ERROR(SendMaster(u, parameters, vector));
  parts_.stream.Wait(*up_->Record());
  return absl::OkStatus();
}

}  // namespace zerofleet::zero
