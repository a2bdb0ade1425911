// Ordered streams with delays, cuts and breaks; see network.h.
#include "tests/sim/network.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace zerofleet::sim {

void Network::Lose(CoordinatorEnd* coordinator) {
  if (coordinator_ == coordinator) coordinator_ = nullptr;
  for (auto& [member, session] : sessions_) {
    if (session.coordinator != coordinator) continue;
    session.coordinator = nullptr;
    Break(member);
  }
}

coordinator::MemberId Network::Open(SessionEnd* worker) {
  sessions_[++last_].worker = worker;
  sessions_[last_].coordinator = coordinator_;
  return last_;
}

void Network::Carry(coordinator::MemberId member, bool up, std::function<void()> arrival) {
  Session& session = sessions_[member];
  if (session.broken) return;
  double& last = up ? session.up_at : session.down_at;
  last = std::max(last, world_.now() + world_.Delay());
  (up ? session.up : session.down).push_back(std::move(arrival));
  world_.After(last - world_.now(), [this, member, up] { Arrive(member, up); });
}

void Network::Arrive(coordinator::MemberId member, bool up) {
  Session& session = sessions_[member];
  if (session.cut_until > world_.now()) {
    world_.After(session.cut_until - world_.now() + 1e-6, [this, member, up] { Arrive(member, up); });
    return;
  }
  std::deque<std::function<void()>>& way = up ? session.up : session.down;
  if (way.empty()) return;  // the stream broke
  const std::function<void()> arrival = std::move(way.front());
  way.pop_front();
  arrival();
}

void Network::Send(coordinator::MemberId member, const v1::WorkerMessage& message) {
  const auto arrival = [this, member, message] {
    if (CoordinatorEnd* coordinator = sessions_[member].coordinator) coordinator->Receive(member, message);
  };
  Carry(member, true, arrival);
  if (!repeats_ || message.has_hello() || !world_.Chance(0.1)) return;
  if (world_.Chance(0.5)) return Carry(member, true, arrival);
  world_.After(world_.Uniform(0, 2), [this, member, arrival] { Carry(member, true, arrival); });
}

void Network::Send(coordinator::MemberId member, const v1::CoordinatorMessage& message) {
  Carry(member, false, [this, member, message] {
    if (SessionEnd* worker = sessions_[member].worker) worker->Receive(member, message);
  });
}

void Network::TellCoordinator(coordinator::MemberId member, const std::string& cause) {
  if (CoordinatorEnd* told = std::exchange(sessions_[member].coordinator, nullptr)) told->SessionClosed(member, cause);
}

void Network::TellWorker(coordinator::MemberId member, bool broken) {
  if (SessionEnd* told = std::exchange(sessions_[member].worker, nullptr)) told->StreamEnded(member, broken);
}

void Network::CloseByWorker(coordinator::MemberId member) {
  sessions_[member].worker = nullptr;
  Carry(member, true, [this, member] { TellCoordinator(member, "its session ended"); });
}

void Network::CloseByCoordinator(coordinator::MemberId member) {
  Carry(member, false, [this, member] {
    TellWorker(member, false);
    Carry(member, true, [this, member] { TellCoordinator(member, "its session ended"); });
  });
}

bool Network::IsCutOff(const CoordinatorEnd* coordinator) const {
  const auto cut = cut_off_until_.find(coordinator);
  return cut != cut_off_until_.end() && cut->second > world_.now();
}

double Network::CutOffFor(const CoordinatorEnd* coordinator) const {
  return IsCutOff(coordinator) ? world_.now() - cut_off_since_.at(coordinator) : 0;
}

bool Network::TakeForBroken(Session& session) {
  session.up.clear();
  session.down.clear();
  return !std::exchange(session.broken, true);
}

void Network::BreakByCoordinator(coordinator::MemberId member) {
  Session& session = sessions_[member];
  if (!TakeForBroken(session)) return;
  const double after = std::max(0.0, session.cut_until - world_.now());
  world_.After(world_.Delay(), [this, member] { TellCoordinator(member, "given up"); });
  world_.After(after + world_.Delay(), [this, member] { TellWorker(member, true); });
}

void Network::CutOff(CoordinatorEnd* coordinator, double seconds, bool time_out) {
  cut_off_since_[coordinator] = world_.now();
  cut_off_until_[coordinator] = world_.now() + seconds;
  for (auto& [member, session] : sessions_) {
    if (session.coordinator != coordinator || session.broken) continue;
    session.cut_until = std::max(session.cut_until, world_.now() + seconds);
    if (!time_out) continue;
    TakeForBroken(session);
    world_.After(world_.Uniform(0.5, 1) * seconds, [this, id = member] { TellCoordinator(id, "timed out"); });
    world_.After(world_.Uniform(0.5, 1) * seconds, [this, id = member] { TellWorker(id, true); });
  }
}

void Network::Break(coordinator::MemberId member) {
  Session& session = sessions_[member];
  if (!TakeForBroken(session)) return;
  const double after = std::max(0.0, session.cut_until - world_.now());
  world_.After(after + world_.Delay(), [this, member] { TellCoordinator(member, "stream broken"); });
  world_.After(after + world_.Delay(), [this, member] { TellWorker(member, true); });
}

void Network::Cut(coordinator::MemberId member, double seconds) {
  sessions_[member].cut_until = std::max(sessions_[member].cut_until, world_.now() + seconds);
}

}  // namespace zerofleet::sim
