// What a coordinator that knows nothing about a worker must be told. The worker's session keeps it, in case its stream
// breaks and another coordinator answers.
//
// It follows both directions of the session. It keeps what still matters: who the worker is, that it is ready, its
// newest events, a shard whose outcome is not known yet, its failure or its end. Whether the previous coordinator has
// received any of that is not known, so a coordinator must expect repetitions.
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
  // The most events that are kept, and the most bytes of them: more than a fleet sends while its coordinator restarts.
  // An event takes about 100 bytes, a histogram (histograms.every_steps) up to 20 KB.
  static constexpr size_t kMostEvents = 4096, kMostEventBytes = 16 << 20;

  // Notes a message from the worker, with its generation set, whether it can be sent now or not.
  void Sent(const v1::WorkerMessage& message);
  // Notes a message that has arrived, whether the worker has taken it or not. `now` is in seconds, monotonic.
  void Arrived(const v1::CoordinatorMessage& message, double now);

  // The first message of the next stream: Hello with a Rejoin. Nothing if the worker has not said Hello yet.
  std::optional<v1::WorkerMessage> Hello(double now) const;
  // The messages that follow once the coordinator has answered the Hello.
  std::vector<v1::WorkerMessage> Rest() const;

 private:
  void LeaveView();
  void NoteEvent(const v1::WorkerMessage& message);
  // In a view too large for its assignment to name all members, keeps two of those that the worker requested, so that
  // each rank can be named by two others if it does not come back. One is the next rank, the other is half the view
  // away, on another node.
  void NoteNeighbours(const v1::Peers& peers);

  uint64_t generation_ = 0;  // the newest that the worker knows
  std::optional<v1::WorkerMessage> hello_;
  std::string config_digest_;  // the Welcome's configuration's
  // Kept for the whole process.
  std::optional<int64_t> first_step_;
  double training_began_ = 0;
  std::optional<v1::WorkerMessage> stop_requested_;
  int64_t parameters_ = 0;
  // Kept for the view that the worker is in, or is ready for.
  std::optional<v1::Assignment> assignment_;
  std::array<std::optional<v1::Member>, 2> neighbours_;
  std::optional<v1::Start> start_;
  int64_t step_ = 0;
  std::optional<v1::WorkerMessage> ready_, shard_, failure_, finished_;
  std::deque<v1::WorkerMessage> events_;
  size_t event_bytes_ = 0;
};

}  // namespace zerofleet::services

#endif  // ZEROFLEET_SERVICES_SESSION_SESSION_JOURNAL_H_
