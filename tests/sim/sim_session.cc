// Streams, heartbeats and patience; see sim_session.h.
#include "tests/sim/sim_session.h"

#include <cmath>
#include <utility>
#include <variant>

#include "tests/sim/run_plan.h"

namespace zerofleet::sim {
namespace {

constexpr double kConnectSlice = 0.1;  // seconds
constexpr double kRounding = 1e-6;     // slack, so that work whose time has come counts as due

}  // namespace

void SimSession::Connect(const v1::WorkerMessage& hello) { ConnectBefore(world_.now() + kConnectTimeout, hello); }

void SimSession::ConnectBefore(double deadline, const v1::WorkerMessage& hello) {
  if (network_.serves()) {
    machine_.emplace(
        services::SessionMachineOptions{.coordinator = "simulated", .connect_timeout_seconds = kConnectTimeout});
    stream_ = network_.Open(this);
    return Send(hello);
  }
  if (world_.now() > deadline) return GoOver();
  world_.After(kConnectSlice, [this, deadline, hello] {
    hooks_.process([this, deadline, hello] { ConnectBefore(deadline, hello); });
  });
}

void SimSession::Send(v1::WorkerMessage message) {
  machine_->Send(std::move(message)).IgnoreError();  // a session that is over is noticed elsewhere
  Write();
}

std::optional<v1::CoordinatorMessage> SimSession::Take() {
  return machine_ ? machine_->Take() : std::optional<v1::CoordinatorMessage>();
}

void SimSession::StartHeartbeats() {
  machine_->StartHeartbeats();
  Write();
}

void SimSession::Close() {
  if (!machine_ || over_) return;
  machine_->Close();
  Write();
}

void SimSession::Kill() {
  if (stream_ != 0) network_.Break(stream_);
}

// Writes every message that is due by now.
void SimSession::Write() {
  while (stream_ != 0) {
    services::NextWrite next = machine_->Next(world_.now());
    if (auto* message = std::get_if<v1::WorkerMessage>(&next)) {
      network_.Send(stream_, *message);
    } else if (std::holds_alternative<services::WriteHeartbeat>(next)) {
      network_.Send(stream_, machine_->Beat(hooks_.heartbeat()));
    } else if (std::holds_alternative<services::WriteNoMore>(next)) {
      network_.CloseByWorker(std::exchange(stream_, 0));
    } else {
      break;
    }
  }
  const double next = stream_ == 0 ? HUGE_VAL : machine_->NextHeartbeat();
  if (std::isinf(next) || std::exchange(beat_is_due_, true)) return;
  Later(next - world_.now() + kRounding, &SimSession::Beat);
}

void SimSession::Later(double seconds, void (SimSession::*what)()) {
  world_.After(seconds, [this, what] { hooks_.process([this, what] { (this->*what)(); }); });
}

void SimSession::Beat() {
  beat_is_due_ = false;
  Write();
}

void SimSession::Receive(coordinator::MemberId stream, const v1::CoordinatorMessage& message) {
  hooks_.process([this, stream, message] {
    if (stream != stream_) return;
    const services::SessionMachine::Arrival arrival = machine_->Arrived(message, world_.now());
    if (!arrival.status.ok()) {
      network_.CloseByWorker(stream);
      return Ended({services::StreamEnd::Kind::kOver, arrival.status});
    }
    Write();
    hooks_.can_take();
  });
}

void SimSession::StreamEnded(coordinator::MemberId stream, bool broken) {
  hooks_.process([this, stream, broken] {
    if (stream != stream_) return;
    Ended({broken ? services::StreamEnd::Kind::kBroken : services::StreamEnd::Kind::kOver,
           absl::UnavailableError("the stream has ended")});
  });
}

void SimSession::Ended(const services::StreamEnd& end) {
  stream_ = 0;
  machine_->Ended(end, world_.now(), world_.Uniform(0, 1));
  OpenAgain();
}

void SimSession::OpenAgain() {
  using Phase = services::SessionMachine::Phase;
  if (stream_ != 0 || over_) return;
  machine_->Tick(world_.now());
  if (machine_->phase() == Phase::kPausing) {
    return Later(machine_->paused_until() - world_.now() + kRounding, &SimSession::OpenAgain);
  }
  if (machine_->phase() == Phase::kConnecting && !network_.serves())
    return Later(kConnectSlice, &SimSession::OpenAgain);
  if (machine_->phase() == Phase::kConnecting) machine_->Connected(world_.now());
  if (machine_->phase() == Phase::kOver) return GoOver();
  stream_ = network_.Open(this);
  Write();
}

void SimSession::GoOver() {
  over_ = true;
  hooks_.can_take();
}

}  // namespace zerofleet::sim
