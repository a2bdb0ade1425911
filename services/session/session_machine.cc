// The states of a session, its queues and its patience; see session_machine.h.
#include "services/session/session_machine.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "coordinator/away.h"

namespace zerofleet::services {
namespace {

// Both sides send little: a queue this long means that the other side no longer reads.
constexpr size_t kQueueBound = 2 * SessionJournal::kMostEvents;

// The first pause between two streams. It doubles as long as no stream is answered, and every worker waits a random
// part of it, so that not all reach a coordinator at once.
constexpr double kFirstPauseSeconds = 0.05;

constexpr double kDefaultHeartbeatSeconds = 0.5;
constexpr double kShortestHeartbeatSeconds = 0.05;
constexpr double kHeartbeatsPerTimeout = 4;

}  // namespace

double HeartbeatSeconds(double timeout_seconds) {
  return std::max(timeout_seconds / kHeartbeatsPerTimeout, kShortestHeartbeatSeconds);
}

SessionMachine::SessionMachine(SessionMachineOptions options)
    : options_(std::move(options)),
      heartbeat_seconds_(options_.heartbeat_interval_seconds),
      give_up_seconds_(options_.reconnect_seconds.value_or(options_.connect_timeout_seconds)),
      pause_(kFirstPauseSeconds) {}

absl::Status SessionMachine::Send(v1::WorkerMessage message) {
  if (!lost_.ok()) return lost_;
  if (outgoing_.size() >= kQueueBound) {
    return absl::UnavailableError(absl::StrCat("the coordinator at ", options_.coordinator, " has left ", kQueueBound,
                                               " messages of this worker unread"));
  }
  if (message.generation() == 0) message.set_generation(generation_);
  journal_.Sent(message);
  if (known_) outgoing_.push_back(std::move(message));
  return absl::OkStatus();
}

std::optional<v1::CoordinatorMessage> SessionMachine::Take() {
  if (incoming_.empty()) return std::nullopt;
  v1::CoordinatorMessage message = std::move(incoming_.front());
  incoming_.pop_front();
  if (message.has_regroup()) in_view_ = false;
  if (!in_view_ || !message.has_welcome()) generation_ = std::max(generation_, message.generation());
  if (message.has_assignment()) in_view_ = true;
  return message;
}

void SessionMachine::StartHeartbeats() {
  beats_ = true;
  next_heartbeat_ = 0;
}

void SessionMachine::Close() {
  closing_ = true;
  if (phase_ == Phase::kPausing || phase_ == Phase::kConnecting) GoOver();
}

SessionMachine::Arrival SessionMachine::Arrived(v1::CoordinatorMessage message, double now) {
  if (message.has_refused()) {
    const auto code = static_cast<absl::StatusCode>(message.refused().code());
    return {
        MakeStatus(code == absl::StatusCode::kOk ? absl::StatusCode::kUnavailable : code, message.refused().message())};
  }
  if (incoming_.size() >= kQueueBound) {
    return {absl::AbortedError(absl::StrCat("the coordinator at ", options_.coordinator, " sent ", kQueueBound,
                                            " messages that this worker has not taken"))};
  }
  journal_.Arrived(message, now);
  if (message.has_complete()) completed_ = true;
  if (message.checkpoint().committed()) committed_step_ = message.checkpoint().step();
  Arrival arrival;
  if (message.has_welcome()) {
    arrival.adopted = !known_;
    TakeWelcome(message.welcome().config().restart());
  }
  incoming_.push_back(std::move(message));
  return arrival;
}

void SessionMachine::TakeWelcome(const v1::RestartConfig& restart) {
  const double timeout = restart.heartbeat_timeout_seconds();
  if (heartbeat_seconds_ == 0 && timeout > 0) heartbeat_seconds_ = HeartbeatSeconds(timeout);
  if (!options_.reconnect_seconds && restart.reconnect_timeout_seconds() > 0) {
    give_up_seconds_ = restart.reconnect_timeout_seconds();
    configured_ = true;
  }
  pause_ = kFirstPauseSeconds;
  broken_since_.reset();
  if (std::exchange(known_, true)) return;
  for (v1::WorkerMessage& message : journal_.Rest()) outgoing_.push_back(std::move(message));
  next_heartbeat_ = 0;
}

bool SessionMachine::HasWork() const {
  const bool first_heartbeat = beats_ && next_heartbeat_ == 0 && known_;
  return closing_ || !outgoing_.empty() || first_heartbeat;
}

double SessionMachine::NextHeartbeat() const {
  return beats_ && known_ ? next_heartbeat_ : std::numeric_limits<double>::infinity();
}

NextWrite SessionMachine::Next(double now) {
  if (NextHeartbeat() <= now && !closing_) {
    next_heartbeat_ = now + (heartbeat_seconds_ == 0 ? kDefaultHeartbeatSeconds : heartbeat_seconds_);
    return WriteHeartbeat();
  }
  if (!outgoing_.empty()) {
    v1::WorkerMessage message = std::move(outgoing_.front());
    outgoing_.pop_front();
    return message;
  }
  if (closing_) return WriteNoMore();
  return WriteNothing();
}

v1::WorkerMessage SessionMachine::Beat(v1::Heartbeat heartbeat) {
  v1::WorkerMessage message;
  *message.mutable_heartbeat() = std::move(heartbeat);
  message.set_generation(generation_);
  journal_.Sent(message);
  return message;
}

std::optional<std::string> SessionMachine::Ended(const StreamEnd& end, double now, double jitter) {
  ZF_CHECK(phase_ == Phase::kOpen);
  const bool stranger = !std::exchange(known_, false);  // until a coordinator answers
  const bool broke =
      end.kind == StreamEnd::Kind::kBroken || (end.kind == StreamEnd::Kind::kFull && stranger);  // too many at once
  ending_ = completed_ ? absl::UnavailableError("the run is complete and its session over") : end.status;
  if (completed_ || !broke || closing_) {
    GoOver();
    return std::nullopt;
  }
  phase_ = Phase::kPausing;
  const double longest = std::exchange(pause_, std::min(2 * pause_, coordinator::kStreamPauseSeconds));
  paused_until_ = now + longest * (0.5 + 0.5 * jitter);
  if (broken_since_) return std::nullopt;
  broken_since_ = now;
  return absl::StrCat(ending_.message(), "; going on, and connecting again");
}

void SessionMachine::Tick(double now) {
  if (phase_ == Phase::kPausing && now >= paused_until_) {
    phase_ = Phase::kConnecting;
  } else if (phase_ == Phase::kConnecting && now > *broken_since_ + give_up_seconds_) {
    GiveUp();
  }
}

void SessionMachine::Connected(double now) {
  Tick(now);
  if (phase_ != Phase::kConnecting) return;
  phase_ = Phase::kOpen;
  outgoing_.clear();  // the journal has those of them that matter
  std::optional<v1::WorkerMessage> hello = journal_.Hello(now);
  known_ = !hello;
  if (hello) outgoing_.push_back(*std::move(hello));
}

// Makes the worker's last message: a person who finds it on one node of many must learn from it what to do.
void SessionMachine::GiveUp() {
  const std::string key = configured_ ? " (restart.reconnect_timeout_seconds)" : "";
  const std::string commit =
      committed_step_ ? absl::StrCat("the last checkpoint that this worker saw committed is step ", *committed_step_)
                      : "this worker saw no checkpoint committed";
  ending_ = absl::UnavailableError(
      absl::StrCat(ending_.message(), "; no coordinator has answered at ", options_.coordinator, " for ",
                   give_up_seconds_, " s", key, ", so this worker ends; ", commit,
                   "; to go on, start the coordinator again with the same --state-dir, and then the workers"));
  GoOver();
}

void SessionMachine::GoOver() {
  phase_ = Phase::kOver;
  lost_ = ending_;
}

}  // namespace zerofleet::services
