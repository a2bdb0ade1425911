// A worker process as the coordinator knows it.
#ifndef ZEROFLEET_COORDINATOR_MEMBER_H_
#define ZEROFLEET_COORDINATOR_MEMBER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/event.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::coordinator {

enum class MemberState { kSpare, kJoined, kReady, kLoading, kTraining, kFinished, kLost, kAway };

const char* Name(MemberState state);

// Ids from here on belong to ranks without a session; no session gets one.
inline constexpr MemberId kAwayIds = MemberId{1} << 63;

struct Member {
  MemberId id = 0;
  MemberState state = MemberState::kJoined;
  int rank = -1;    // -1 until assigned; a member that joins a recovery gets its rank at once
  v1::Hello hello;  // in an adopted view, until the rank is back: only its host and process id, or nothing
  v1::Ready ready;
  int64_t step = 0;
  double last_heard = 0;               // seconds: its last message
  std::optional<v1::Entered> entered;  // what it sent on entering the view
  absl::Status load_failure;           // why it cannot load the candidate, until the coordinator has read that
  bool heartbeats = false;             // it has sent one, so its silence is judged by the heartbeat timeout
  std::vector<v1::GroupProgress> progress;
  double progress_since = 0;             // when `progress` last changed
  v1::Pace pace;                         // its pace in this view
  std::optional<v1::SaveProgress> save;  // the write in progress, if there is one
  double save_since = 0;                 // when `save` last changed
  int64_t samples_consumed = 0;          // the data cursor of what it has loaded
  double leaves_by = 0;  // seconds: the time by which it must have left the lost view; 0: it was in none
  bool finished_early = false;
  bool failed = false;     // it reported an error from which it cannot continue: it leaves, and that is no loss
  bool closed = false;     // its session has ended, after it had finished
  bool came_back = false;  // its Hello had a Rejoin: it was in the fleet before
  v1::RankReport report;
};

// "rank 1 (host b, pid 12)", or "worker (host b, pid 12)" before it has a rank.
std::string NameOf(const Member& member);
// "host b, pid 12", or "host pod-b, node b, pid 12" where the host is a part of a node
std::string PlaceOf(const v1::Hello& hello);
// The name of the machine that the worker is on.
const std::string& NodeNameOf(const v1::Hello& hello);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_MEMBER_H_
