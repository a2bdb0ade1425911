// The coordinator's whole state, and what every decision needs of it: names, lookups, and a place for outputs.
//
// The decisions stand in files of their own, as functions on a Fleet: rendezvous, adoption, view, load_phase, training,
// commit, liveness, isolation, disagreement, recovery, stop, ending. A fleet that recovers keeps this struct, and its
// view is set anew.
#ifndef ZEROFLEET_COORDINATOR_FLEET_H_
#define ZEROFLEET_COORDINATOR_FLEET_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/broken_pairs.h"
#include "coordinator/event.h"
#include "coordinator/losses.h"
#include "coordinator/member_list.h"
#include "coordinator/output.h"
#include "coordinator/ownership.h"
#include "coordinator/partition.h"
#include "coordinator/placement.h"
#include "zerofleet/v1/coordinator.pb.h"

namespace zerofleet::coordinator {

enum class Phase { kForming, kAdopting, kLoading, kTraining, kRecovering, kFinishing, kDone, kFailed };

const char* Name(Phase phase);

// A committed checkpoint the run may start from.
struct CheckpointCandidate {
  std::string path;
  int64_t step = 0;
  int team = 0;             // of the run that wrote it; 0: no run has formed yet
  uint64_t generation = 0;  // of the fleet that wrote it
  int64_t bytes = 0;        // of its shards
  std::string digest = {};  // of its manifest, by which every rank knows what was committed; empty: not known
};

// A snapshot in the memory of the members, to which the run goes back.
struct SnapshotChoice {
  v1::SnapshotId id;
  std::vector<std::string> holders;  // by rank: the service address of who serves its part; empty: the rank itself
  std::vector<std::string> copies;   // by rank: the service address of another that holds its part; empty: none does
};

struct FleetParameters {
  v1::Config config;              // complete
  std::vector<UnitExtent> units;  // of its model; with tensor groups, of each part of it
  int64_t elements = 0;           // of the whole model
  // The vectors of the training state in a view of this many ranks.
  std::function<std::vector<StateVector>(int world_size)> states = [](int) { return std::vector<StateVector>(); };
  std::string version, revision;
  std::string run_id;                           // v1::StartEvent's
  std::string run;                              // its name, for people and metrics
  uint64_t previous_generation = 0;             // the largest ever used; a fleet of it may be running
  std::vector<CheckpointCandidate> candidates;  // at the start, newest first; none: initialise from the seed
  bool may_fall_back = false;                   // a bad candidate makes way for the next
  bool ended_before = false;                    // the run has ended in an earlier process: nothing is left to do
  std::vector<std::string> unreadable;          // step directories whose manifest is invalid
  std::vector<std::string> notices;             // what a person should know of the start, said when the fleet forms
  std::vector<Rollback> rollbacks;              // of the run before it was resumed, or its coordinator lost
  int most_inline_ranks = kMostInlineRanks;     // a larger view's assignments have no members
};

// What a generation's members share, set by FormView.
struct View {
  int team;                // ranks of a data group that are summed together first
  Axes axes;               // along which its ranks are numbered
  std::vector<int> nodes;  // by rank: the number of its node
  PartitionMap partition;  // of the state over a data group
  int entered = 0;         // members that have said so
  std::vector<PlacedRange> OwnedBy(int rank) const { return partition.StoredRanges(axes.At(rank, kDataGroup)); }
  int TeamOf(int rank) const { return axes.At(rank, kDataGroup) / team; }
  int world_size() const { return axes.world_size(); }
};

// Why a checkpoint cannot be stored.
struct SaveFailure {
  absl::Status status;
  int rank = -1;   // that could not write its shard; -1: all could
  int others = 0;  // ranks that could not, either
};

// The shards of one step that have been reported, until the checkpoint is committed, or what there is of it removed.
struct PendingCommit {
  uint64_t generation = 0;
  int retry = 0;                           // of ShardWritten
  std::map<int, v1::ShardWritten> shards;  // by rank, without manifest; those that could not be written included
  v1::CheckpointManifest manifest;         // that all of them sent
  std::optional<int> described_by;         // the rank that sent it first
  std::optional<int> differs;              // a rank that sent another
  std::optional<SaveFailure> failure;
  // From kCommitting and kDiscarding on, the answer to WriteManifest or DiscardSave is awaited.
  enum class Stage { kCollecting, kCommitting, kDiscarding } stage = Stage::kCollecting;
  double since = 0;                       // seconds: its stage began, or storage got on with it
  bool stall_told = false;                // that storage does not
  std::optional<ManifestWritten> answer;  // to a commit that was outlived, which came while a view loads
};

// The last save, if it failed.
struct FailedSave {
  uint64_t generation = 0;
  int64_t step = 0;
  int retry = 0;
  int64_t in_a_row = 0;  // saves that failed since the last commit
  std::string text;
};

// A rank's report of a failure that another rank's loss may explain; decided at `deadline`.
struct Suspicion {
  absl::Status status;
  int rank;
  double deadline;
  bool counted;                     // as a failure
  std::set<BrokenPair> pairs = {};  // of this view, that were reported until now
};

// What ranks have reported of bits that differ (disagreement.h); decided at `deadline`, or when all have reported.
struct Verdicts {
  double deadline = 0;                 // seconds
  std::map<int, v1::Failure> reports;  // by the rank that reports
};

// A checkpoint that the coordinator itself reads, since a rank could not load it.
struct Verification {
  std::string path;
  double deadline = 0;      // seconds; where no stall is judged
  double since = 0;         // seconds: it has got no further
  bool stall_told = false;  // to people, of that standstill
};

// Nobody is heard (isolation.h).
struct Isolation {
  double since = 0;       // seconds
  bool may_last = false;  // nobody has been heard since, of several members
};

// What is known of a recovery until the fleet trains again.
struct Recovery {
  std::string cause;           // of the first loss
  std::set<int> failed_ranks;  // of all
  double began = 0;            // seconds: the first loss
  double detect_seconds = 0;   // from the last message of the first lost rank
  double formed = 0;           // seconds: the newest view
};

// How long the last recovery took, part by part, in seconds.
struct RecoveryDurations {
  double detect = 0;      // see Recovery
  double rendezvous = 0;  // until every place is taken and every member ready
  double load = 0;        // until every rank has entered the view and loaded
  double first_step = 0;  // until a step is reported
};

// Figures for metrics; they only grow, except as said.
struct FleetCounters {
  uint64_t stale_messages_rejected = 0;
  uint64_t checkpoint_verify_failures = 0;
  uint64_t save_failures = 0;
  int64_t checkpoint_bytes = 0;
  std::map<std::string, uint64_t> rank_failures;   // by cause: see metrics.md
  double rendezvous_seconds = 0;                   // of the last formation
  int64_t lost_steps = 0;                          // done after the step that a recovery went back to
  double step_seconds = 0, lost_step_seconds = 0;  // of all steps, and of those that were lost again
  uint64_t steps_that_differ = 0;                  // done again with other numbers (repeated_steps.h)
  uint64_t recoveries = 0;
  uint64_t rollbacks = 0;
  uint64_t not_finite = 0, spikes = 0;  // divergences of either kind, whatever followed from them
  RecoveryDurations recovery;           // the last
};

inline constexpr size_t kMostNamed = 8;  // members that one line names, of however many

// What each phase keeps. A decision writes what is its own phase's; others read it. What outlives its phase is what the
// next one of the same name goes on with.

// Workers join, until every place is taken (rendezvous.h, view.h).
struct Forming {
  double since = 0;                  // seconds
  std::optional<v1::Hello> hello;    // the first worker's, which others must equal
  std::set<int> vacant;              // ranks of the last view that nobody has taken yet
  std::map<std::string, int> seats;  // the ranks that members of a recovery had, by incarnation
  bool restarted = false;            // a worker has come back to this coordinator from its predecessor
};

// A running fleet comes back to a coordinator that was restarted (adoption.h).
struct Adopting {
  std::optional<v1::Assignment> told;      // the view, as its first rank told it
  std::optional<v1::Divergence> diverged;  // it goes back when all ranks are there
};

// Ranks enter the view and load (load_phase.h).
struct Loading {
  double progress = 0;                       // seconds: the view was formed, asked to load, or a rank entered or loaded
  size_t candidate = 0;                      // index of the checkpoint being loaded
  std::optional<SnapshotChoice> snapshot;    // being loaded instead
  std::optional<Verification> verification;  // under way; one that an earlier view asked for is as good
  std::string initial;                       // XXH3-128 of init_from's manifest, as told; empty: not read yet
};

// A step as it was reported.
struct DoneStep {
  int64_t step;
  double seconds;
  double loss, grad_norm;
  int world_size;
  size_t rollbacks;  // of the run before it: after another, its samples are others
};

// What was done since the last commit, and what of it is to be done again (repeated_steps.h).
struct RecentSteps {
  std::deque<DoneStep> uncommitted;      // in their order
  std::map<int64_t, DoneStep> repeated;  // lost, by step, until they are reported again
};

// Which ranks hold the others up (straggler.h).
struct StragglerWatch {
  std::set<int> named;        // they have been, and do not keep up yet
  std::map<int, int> checks;  // by rank: how many in a row say the contrary of what was told of it
  double checked = 0;         // seconds
  int64_t checked_at = 0;     // step
};

// Steps are done (training.h).
struct Training {
  double began = 0;         // seconds: for the first time
  uint64_t generation = 0;  // of the last view that began to train
  v1::Start start;          // what the ranks of the view were told
  int64_t first_step = 0;   // completed when the run began
  int64_t start_step = 0;   // completed when the view began
  v1::StepEvent last_step_event;
  v1::EvaluateEvent last_evaluation;
  int64_t last_evaluated_step = -1;
  std::deque<std::pair<int64_t, double>> step_losses;  // the newest steps that count, and their losses
  RecentSteps recent;
  double standstill_told = 0;  // seconds: people were told that no rank gets on
  StragglerWatch stragglers;
};

// Checkpoints are written while steps are done (commit.h, failed_save.h).
struct Saving {
  std::map<int64_t, PendingCommit> commits;  // by step
  // The commits that a recovery went on without, by generation and step (outlived_commit.h).
  std::map<std::pair<uint64_t, int64_t>, PendingCommit> outlived;
  std::optional<FailedSave> failed_save;  // until the next commit
  int64_t last_committed_step = -1;       // of this run, or what it resumed from
  int64_t committed_by_run = -1;          // of this run alone
  std::string last_committed_path;
  bool emptied = false;  // the checkpoint directory was removed, and has no commit since
};

// Who is heard, and what they report (liveness.h, isolation.h, disagreement.h).
struct Hearing {
  double last_tick = 0;                // seconds
  double late_by = 0, late_until = 0;  // it stood still for so long: until then sessions that end do so for that
  double heard_at = 0;                 // seconds: the newest message of anybody
  std::optional<Suspicion> suspicion;
  std::optional<Verdicts> verdicts;
  std::optional<Isolation> isolation;  // until those who were given up are back, or are lost
  std::set<MemberId> given_up;         // sessions whose end has not been told yet
  bool some_have_left = false;         // members by themselves, since the last regrouping
};

// Losses, and the ways back (recovery.h, divergence.h).
struct Recovering {
  std::optional<Recovery> current;
  bool memory_is_doubted = false;   // in it: ranks have computed wrong numbers, which may be in their snapshots
  double ended = 0;                 // seconds: training began again, and no step has been reported since; else 0
  Losses losses;                    // of the run
  v1::Flight flight;                // of the last view that was lost
  std::vector<Rollback> rollbacks;  // of the run, oldest first; of the last step that diverged perhaps not done yet
};

// The run ends (stop.h, ending.h).
struct Finishing {
  std::optional<std::string> stop_reason;
  double since = 0;  // seconds: the first rank has finished
};

// What ranks compute with and read, as they tell it.
using Environment = google::protobuf::RepeatedPtrField<v1::Fact>;

struct Fleet {
  FleetParameters parameters;
  std::string config_digest;  // of its configuration
  double began = 0;           // seconds: the coordinator's start
  Phase phase = Phase::kForming;
  std::string message;  // why, when failed
  uint64_t generation = 0;
  MemberList members;              // in join order; in rank order once there is a view
  MemberList spares;               // beyond the places, in join order
  int places = 0;                  // of the view that is, or is to be
  std::optional<View> view;        // none while the fleet forms or recovers
  int team = 0;                    // of the run, from its first view on
  Environment environment;         // of the newest view, by which those who come are judged (environment.h)
  bool mixed_environment = false;  // not all of its members have it
  Forming forming;
  Adopting adopting;
  Loading loading;
  Training training;
  Saving saving;
  Hearing hearing;
  Recovering recovering;
  Finishing finishing;
  FleetCounters counters;
  std::vector<Output> outputs;  // of the step in progress

  // Ranks in the view; while the fleet forms or recovers, in the next one.
  int world_size() const { return view ? view->world_size() : places; }
  double heartbeat_timeout_seconds() const { return parameters.config.restart().heartbeat_timeout_seconds(); }
  double form_timeout_seconds() const { return parameters.config.restart().form_timeout_seconds(); }
  double load_timeout_seconds() const { return parameters.config.restart().load_timeout_seconds(); }
  bool ended() const { return phase == Phase::kDone || phase == Phase::kFailed; }

  Member* Find(MemberId id);          // spares included
  bool All(MemberState state) const;  // every place is taken, by a member in this state
  bool AllEntered() const;            // every member has entered the view

  // Outputs. Messages carry the fleet's generation.
  void Send(MemberId member, v1::CoordinatorMessage message, std::string reason);
  void SendToAll(v1::CoordinatorMessage message, const std::string& reason);  // members
  void SendToSpares(v1::CoordinatorMessage message, const std::string& reason);
  void Publish(v1::Event event, std::string reason);
  void PublishNotice(const std::string& text);
  // As a message that several may be sent.
  std::shared_ptr<const v1::CoordinatorMessage> Stamped(v1::CoordinatorMessage message) const;
  void Emit(decltype(Output::action) action, std::string reason) {
    outputs.push_back({std::move(action), std::move(reason)});
  }
};

// What must be durable.
CoordinatorState StateOf(const Fleet& fleet);
// "last committed checkpoint: step 50", or that there is none.
std::string LastCommitText(const Fleet& fleet);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_FLEET_H_
