// What a coordinator that has heard nothing of a worker must be told of it: kept by the worker's session, for the day
// on which its stream breaks and another coordinator answers.
//
// It follows both directions of the session. Of what was said it keeps what still matters: who the worker is, that it
// is ready, its newest events, a shard whose outcome it has not heard, its failure or its end. Whether the coordinator
// before has heard any of that is not known, so a coordinator takes each of them for what may be a repetition.
#ifndef ZEROFLEET_SERVICES_SESSION_SESSION_JOURNAL_H_
#define ZEROFLEET_SERVICES_SESSION_SESSION_JOURNAL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::services {

class SessionJournal {
 public:
  // Steps and evaluations that are kept: more than a fleet does while its coordinator is started again, about 100 bytes
  // each.
  static constexpr size_t kMostEvents = 4096;

  // A message of the worker's, its generation set, whether it can be sent now or not.
  void Sent(const v1::WorkerMessage& message);
  // A message that has arrived, whether the worker has taken it or not. `now` in seconds, monotonic.
  void Arrived(const v1::CoordinatorMessage& message, double now);

  // The first message of the next stream: Hello with a Rejoin. Nothing if the worker has not said Hello yet.
  std::optional<v1::WorkerMessage> Hello(double now) const;
  // What follows once the coordinator has answered it.
  std::vector<v1::WorkerMessage> Rest() const;

 private:
  void LeaveView();
  // In a view too large for its assignment to name all: two of those whom the worker asked for, so that each rank is
  // named by two others should it not come back. One follows it, the other is half the view away, on another node.
  void NoteNeighbours(const v1::Peers& peers);

  uint64_t generation_ = 0;  // the newest heard of
  std::optional<v1::WorkerMessage> hello_;
  std::string config_digest_;  // of the Welcome's configuration
  // Kept for the whole process.
  std::optional<int64_t> first_step_;
  double training_began_ = 0;
  std::optional<v1::WorkerMessage> stop_requested_;
  int64_t parameters_ = 0;
  // Kept for the view that it is in, or is ready for.
  std::optional<v1::Assignment> assignment_;
  std::array<std::optional<v1::Member>, 2> neighbours_;
  std::optional<v1::Start> start_;
  int64_t step_ = 0;
  std::optional<v1::WorkerMessage> ready_, shard_, failure_, finished_;
  std::deque<v1::WorkerMessage> events_;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_SESSION_SESSION_JOURNAL_H_
