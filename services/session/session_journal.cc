// Keeping what still matters; see session_journal.h.
#include "services/session/session_journal.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "coordinator/config_digest.h"

namespace zerofleet::services {

using Body = v1::WorkerMessage::BodyCase;

namespace {

// The worker judges it in the same way. The outcome of an earlier try at the step does not settle a later one.
bool IsSettledBy(const v1::ShardWritten& shard, const v1::CheckpointOutcome& outcome) {
  return std::pair(shard.step(), shard.retry()) <= std::pair(outcome.step(), outcome.retry());
}

}  // namespace

void SessionJournal::Sent(const v1::WorkerMessage& message) {
  if (message.has_hello()) hello_ = message;
  if (message.has_stop_requested()) stop_requested_ = message;
  if (message.generation() < generation_) return;  // it is about a view that is over, as the worker does not know yet
  switch (message.body_case()) {
    case Body::kReady:
      ready_ = message;
      parameters_ = message.ready().parameters();
      return;
    case Body::kHeartbeat: step_ = std::max(step_, message.heartbeat().step()); return;
    case Body::kEvent: NoteEvent(message); return;
    case Body::kShardWritten: shard_ = message; return;
    case Body::kFailure: failure_ = message; return;
    case Body::kFinished: finished_ = message; return;
    case Body::kHello:
    case Body::kEntered:
    case Body::kLoadResult:
    case Body::kPeersWanted:
    case Body::kStopRequested:
    case Body::BODY_NOT_SET: return;
  }
}

void SessionJournal::Arrived(const v1::CoordinatorMessage& message, double now) {
  // To a worker in a view, a Welcome's later generation does not end that view; only a Regroup does, and that may be
  // lost.
  const bool is_news = !message.has_welcome() || !assignment_;
  if (is_news) generation_ = std::max(generation_, message.generation());
  if (message.has_welcome()) config_digest_ = coordinator::ConfigDigest(message.welcome().config());
  if (message.has_regroup()) LeaveView();
  if (message.has_assignment()) {
    assignment_ = message.assignment();
    assignment_->clear_owned();
    assignment_->clear_collective_key();  // no coordinator needs it
    assignment_->clear_trace_id();        // the call's metadata carries it
    neighbours_ = {};
    for (v1::Member& member : *assignment_->mutable_members()) {
      member.clear_transport_address();
      member.clear_service_address();
    }
  }
  if (message.has_peers() && assignment_) NoteNeighbours(message.peers());
  if (message.has_start()) {
    start_ = message.start();
    step_ = start_->step();
    if (!first_step_) {
      first_step_ = start_->step();
      training_began_ = now;
    }
  }
  if (message.has_checkpoint() && shard_ && IsSettledBy(shard_->shard_written(), message.checkpoint())) shard_.reset();
}

void SessionJournal::NoteNeighbours(const v1::Peers& peers) {
  const int size = std::max(1, assignment_->world_size());
  const auto places_to = [&](int rank) { return ((rank - assignment_->rank()) % size + size) % size; };
  const std::array<int, 2> wishes = {1, size / 2};
  for (const v1::Member& peer : peers.members()) {
    const int places = places_to(peer.rank());
    if (places == 0) continue;  // this worker itself
    for (size_t i = 0; i < wishes.size(); ++i) {
      std::optional<v1::Member>& known = neighbours_[i];
      if (known && std::abs(places_to(known->rank()) - wishes[i]) <= std::abs(places - wishes[i])) continue;
      known.emplace().set_rank(peer.rank());
      known->set_host(peer.host());
      known->set_node_name(peer.node_name());
      known->set_pid(peer.pid());
    }
  }
}

void SessionJournal::NoteEvent(const v1::WorkerMessage& message) {
  events_.push_back(message);
  event_bytes_ += message.ByteSizeLong();
  while (events_.size() > 1 && (events_.size() > kMostEvents || event_bytes_ > kMostEventBytes)) {
    event_bytes_ -= events_.front().ByteSizeLong();
    events_.pop_front();
  }
}

void SessionJournal::LeaveView() {
  assignment_.reset();
  start_.reset();
  step_ = 0;
  for (auto* message : {&ready_, &shard_, &failure_, &finished_}) message->reset();
  events_.clear();
  event_bytes_ = 0;
}

std::optional<v1::WorkerMessage> SessionJournal::Hello(double now) const {
  if (!hello_) return std::nullopt;
  v1::WorkerMessage message = *hello_;
  v1::Rejoin& rejoin = *message.mutable_hello()->mutable_rejoin();
  rejoin.set_generation(generation_);
  if (!assignment_) return message;
  *rejoin.mutable_assignment() = *assignment_;
  for (const std::optional<v1::Member>& neighbour : neighbours_) {
    if (neighbour) *rejoin.mutable_assignment()->add_members() = *neighbour;
  }
  rejoin.set_config_digest(config_digest_);
  if (start_) *rejoin.mutable_start() = *start_;
  rejoin.set_step(step_);
  rejoin.set_parameters(parameters_);
  if (!first_step_) return message;
  rejoin.set_first_step(*first_step_);
  rejoin.set_training_seconds(now - training_began_);
  return message;
}

std::vector<v1::WorkerMessage> SessionJournal::Rest() const {
  std::vector<v1::WorkerMessage> rest;
  if (ready_ && !assignment_) {
    rest.push_back(*ready_);
    rest.back().set_generation(generation_);  // valid in any generation until a view has formed
  }
  rest.insert(rest.end(), events_.begin(), events_.end());
  for (const auto* message : {&shard_, &failure_, &stop_requested_, &finished_}) {
    if (*message) rest.push_back(**message);
  }
  return rest;
}

}  // namespace zerofleet::services
