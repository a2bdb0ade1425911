// The coordinator's whole state, and what every decision needs of it: names, lookups, and a place for outputs.
//
// The decisions stand in files of their own, as functions on a Fleet: rendezvous, view, load_phase, training, commit,
// liveness, stop, ending. A fleet in its next generation keeps this struct and clears what `view` sets.
#ifndef ZEROFLEET_COORDINATOR_FLEET_H_
#define ZEROFLEET_COORDINATOR_FLEET_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/event.h"
#include "coordinator/output.h"
#include "coordinator/ownership.h"
#include "coordinator/partition.h"
#include "coordinator/placement.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet {

enum class Phase { kForming, kLoading, kTraining, kFinishing, kDone, kFailed };
enum class MemberState { kJoined, kReady, kLoading, kTraining, kFinished, kLost };

const char* Name(Phase phase);
const char* Name(MemberState state);

// A committed checkpoint the run may start from.
struct CheckpointCandidate {
  std::string path;
  int64_t step = 0;
  int team = 0;  // of the run that wrote it; 0: no run has formed yet
};

struct FleetParameters {
  v1::Config config;              // complete
  std::vector<UnitExtent> units;  // of its model
  // The vectors of the training state in a view of so many ranks.
  std::function<std::vector<StateVector>(int world_size)> states = [](int) { return std::vector<StateVector>(); };
  std::string version;
  std::string run;                              // its name, for people and metrics
  uint64_t previous_generation = 0;             // the largest ever used
  std::vector<CheckpointCandidate> candidates;  // newest first; none: initialise from the seed
  bool may_fall_back = false;                   // a bad candidate makes way for the next
  std::vector<std::string> unreadable;          // step directories whose manifest is invalid
  std::vector<std::string> notices;             // what a person should know of the start, said when the fleet forms
};

struct Member {
  MemberId id = 0;
  MemberState state = MemberState::kJoined;
  int rank = -1;  // -1 until assigned
  v1::Hello hello;
  v1::Ready ready;
  int64_t step = 0;
  double last_heard = 0;               // seconds, of any message
  std::optional<v1::Entered> entered;  // what it said on entering the view
  bool heartbeats = false;             // has sent one, so its silence is judged by the heartbeat timeout
  std::vector<v1::GroupProgress> progress;
  double progress_since = 0;  // when `progress` last changed
  bool finished_early = false;
  bool failed = false;  // has reported an error it cannot go on from: it leaves, and is not lost by that
  v1::RankReport report;
};

// What a generation's members share, set by FormView.
struct View {
  int team;                        // ranks that are summed together first
  std::vector<Coordinates> ranks;  // by rank
  PartitionMap partition;          // of the state over a data group
  std::vector<PlacedRange> OwnedBy(int rank) const { return partition.StoredRanges(ranks[rank].data); }
  int world_size() const { return static_cast<int>(ranks.size()); }
};

// The shards of one step that have been reported, until the manifest is written.
struct PendingCommit {
  std::map<int, v1::ShardWritten> shards;  // by rank
  bool writing = false;                    // WriteManifest is out, its answer is not in
};

// A rank's report of a failure that another rank's loss may explain; decided at `deadline`.
struct Suspicion {
  absl::Status status;
  int rank;
  double deadline;
};

// Figures for metrics; they only grow, except as said.
struct FleetCounters {
  uint64_t stale_messages_rejected = 0;
  uint64_t checkpoint_verify_failures = 0;
  int64_t checkpoint_bytes = 0;
  std::map<std::string, uint64_t> rank_failures;  // by cause: session_ended | heartbeat_timeout | reported
  double rendezvous_seconds = 0;                  // of the last formation
  int64_t lost_steps = 0;                         // done after the last commit, when the run failed
};

struct Fleet {
  FleetParameters parameters;
  Phase phase = Phase::kForming;
  std::string message;  // why, when failed
  uint64_t generation = 0;
  std::vector<Member> members;  // in join order; in rank order once there is a view
  std::optional<View> view;     // none while the fleet forms
  double began = 0;             // seconds: the coordinator's start
  double last_tick = 0;
  double load_began = 0, training_began = 0, training_ended = 0;

  size_t candidate = 0;  // index of the checkpoint being loaded
  int64_t start_step = 0;
  int64_t last_committed_step = -1;  // of this run, or what it resumed from
  int64_t committed_by_run = -1;     // of this run alone
  std::string last_committed_path;
  std::map<int64_t, PendingCommit> commits;  // by step
  std::optional<Suspicion> suspicion;
  std::optional<std::string> stop_reason;
  v1::StepEvent last_step_event;
  v1::EvaluateEvent last_evaluation;
  int64_t last_evaluated_step = -1;
  FleetCounters counters;
  std::vector<Output> outputs;  // of the step in progress

  // Of the view; while the fleet forms, of the view that is asked for.
  int world_size() const { return view ? view->world_size() : parameters.config.parallel().workers(); }
  double heartbeat_timeout_seconds() const { return parameters.config.restart().heartbeat_timeout_seconds(); }
  double form_timeout_seconds() const { return parameters.config.restart().form_timeout_seconds(); }
  bool ended() const { return phase == Phase::kDone || phase == Phase::kFailed; }

  Member* Find(MemberId id);
  bool All(MemberState state) const;  // every place is taken, by a member in this state
  bool AllEntered() const;            // every member has entered the view

  // Outputs. Messages carry the fleet's generation.
  void Send(MemberId member, v1::CoordinatorMessage message, std::string reason);
  void SendToAll(const v1::CoordinatorMessage& message, const std::string& reason);
  void Publish(v1::Event event, std::string reason);
  void PublishNotice(const std::string& text);
  void Emit(decltype(Output::action) action, std::string reason) {
    outputs.push_back({std::move(action), std::move(reason)});
  }
};

// "rank 1 (host b, pid 12)", or "worker (host b, pid 12)" before it has a rank.
std::string NameOf(const Member& member);
// "host b, pid 12"
std::string PlaceOf(const v1::Hello& hello);
// "last committed checkpoint: step 50", or that there is none.
std::string LastCommitText(const Fleet& fleet);

}  // namespace zerofleet

#endif  // ZEROFLEET_COORDINATOR_FLEET_H_
