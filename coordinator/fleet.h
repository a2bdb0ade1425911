// The coordinator's whole state, and what every decision uses: names, lookups, and a place for outputs.
//
// The decisions are functions on a Fleet, in files of their own: rendezvous, adoption, view, load_phase, training,
// commit, liveness, isolation, disagreement, recovery, stop, ending. This struct lives through recoveries; only its
// view is replaced.
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

// A committed checkpoint that the run may start from.
struct CheckpointCandidate {
  std::string path;
  int64_t step = 0;
  int team = 0;             // the team of the run that wrote it; 0: no fleet had formed yet
  uint64_t generation = 0;  // the generation that wrote it
  int64_t bytes = 0;        // size of all its shards
  std::string digest = {};  // its manifest's, by which every rank checks what was committed; empty: not known
};

// A snapshot in the memory of the members, to which the run goes back.
struct SnapshotChoice {
  v1::SnapshotId id;
  std::vector<std::string> holders;  // by rank: service address of the worker that serves its part; empty: the rank
  std::vector<std::string> copies;   // by rank: service address of another that holds its part; empty: none does
};

struct FleetParameters {
  v1::Config config;              // complete
  std::vector<UnitExtent> units;  // the model's; with tensor groups, those of each part
  int64_t elements = 0;           // parameters of the whole model
  // The vectors of the training state in a view of `world_size` ranks.
  std::function<std::vector<StateVector>(int world_size)> states = [](int) { return std::vector<StateVector>(); };
  std::string version, revision;
  std::string run_id;                           // v1::StartEvent's
  std::string run;                              // the run's name, for people and metrics
  uint64_t previous_generation = 0;             // the largest generation ever used; its fleet may still be running
  std::vector<CheckpointCandidate> candidates;  // at the start, newest first; none: initialise from the seed
  bool may_fall_back = false;                   // a bad candidate makes way for the next
  bool ended_before = false;                    // the run has ended in an earlier process: nothing is left to do
  std::vector<std::string> unreadable;          // step directories whose manifest is invalid
  std::vector<std::string> notices;             // what a person should know about the start, told when the fleet forms
  std::vector<Rollback> rollbacks;              // the run's, from before it was resumed or its coordinator restarted
  int most_inline_ranks = kMostInlineRanks;     // a larger view's assignments have no members
};

// What a generation's members share; view.h and adoption.h set it.
struct View {
  int team;                // how many consecutive ranks of a data group are summed together first
  Axes axes;               // the axes along which the view's ranks are numbered
  std::vector<int> nodes;  // by rank: the number of its node
  PartitionMap partition;  // the partition of the state over a data group
  int entered = 0;         // how many members have entered
  std::vector<PlacedRange> OwnedBy(int rank) const { return partition.StoredRanges(axes.At(rank, kDataGroup)); }
  int TeamOf(int rank) const { return axes.At(rank, kDataGroup) / team; }
  int world_size() const { return axes.world_size(); }
};

// Why a checkpoint cannot be stored.
struct SaveFailure {
  absl::Status status;
  int rank = -1;   // the rank that could not write its shard; -1: all could
  int others = 0;  // further ranks that could not write theirs
};

// The reported shards of one step, kept until the checkpoint is committed or its remains are removed.
struct PendingCommit {
  uint64_t generation = 0;
  int retry = 0;                           // as in ShardWritten
  std::map<int, v1::ShardWritten> shards;  // by rank, without manifests; includes shards that could not be written
  v1::CheckpointManifest manifest;         // the manifest that the ranks sent
  std::optional<int> described_by;         // the rank whose manifest was kept
  std::optional<int> differs;              // a rank whose manifest differs
  std::optional<SaveFailure> failure;
  // From kCommitting and kDiscarding on, the answer to WriteManifest or DiscardSave is awaited.
  enum class Stage { kCollecting, kCommitting, kDiscarding } stage = Stage::kCollecting;
  double since = 0;                       // seconds: when its stage began or storage last made progress
  bool stall_told = false;                // people were told that it makes none
  std::optional<ManifestWritten> answer;  // the answer to an outlived commit, kept while a view loads
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
  bool counted;                     // whether it is in rank_failures
  std::set<BrokenPair> pairs = {};  // the pairs that this view's ranks have reported so far
};

// The ranks' reports of bits that differ (disagreement.h); decided at `deadline`, or when all have reported.
struct Verdicts {
  double deadline = 0;                 // seconds
  std::map<int, v1::Failure> reports;  // by reporting rank
};

// The coordinator's own reading of a checkpoint that a rank could not load.
struct Verification {
  std::string path;
  double deadline = 0;      // seconds; used only if stalls are not judged
  double since = 0;         // seconds: when it last made progress
  bool stall_told = false;  // people were told that it makes none
};

// A time in which nobody is heard (isolation.h).
struct Isolation {
  double since = 0;       // seconds
  bool may_last = false;  // there were several members, and none has been heard since
};

// What is known about a recovery until the fleet trains again.
struct Recovery {
  std::string cause;           // why the first rank was lost
  std::set<int> failed_ranks;  // all ranks that were lost
  double began = 0;            // seconds: when the first rank was lost
  double detect_seconds = 0;   // from the first lost rank's last message until it was lost
  double formed = 0;           // seconds: when the newest view was formed
};

// How long the last recovery took, part by part, in seconds.
struct RecoveryDurations {
  double detect = 0;      // Recovery::detect_seconds
  double rendezvous = 0;  // from the loss until every place was taken and every member ready
  double load = 0;        // from the forming of the view until every rank had loaded
  double first_step = 0;  // from the start of training until a step was reported
};

// Figures for metrics; they only grow, unless a comment says otherwise.
struct FleetCounters {
  uint64_t stale_messages_rejected = 0;
  uint64_t checkpoint_verify_failures = 0;
  uint64_t save_failures = 0;
  int64_t checkpoint_bytes = 0;
  std::map<std::string, uint64_t> rank_failures;   // by cause: see metrics.md
  double rendezvous_seconds = 0;                   // the last formation's
  int64_t lost_steps = 0;                          // steps done after the one that a recovery went back to
  double step_seconds = 0, lost_step_seconds = 0;  // time of all steps, and of steps that were lost again
  uint64_t steps_that_differ = 0;                  // repeated steps that gave other numbers (repeated_steps.h)
  uint64_t recoveries = 0;
  uint64_t rollbacks = 0;
  uint64_t not_finite = 0, spikes = 0;  // divergences of either kind, whatever followed from them
  RecoveryDurations recovery;           // the last recovery's
};

inline constexpr size_t kMostNamed = 8;  // the most members that one line names

// What each phase keeps. A decision writes only its own phase's struct; others read it. What outlives a phase is where
// the next phase of the same name continues.

// Workers join, until every place is taken (rendezvous.h, view.h).
struct Forming {
  double since = 0;                  // seconds
  std::optional<v1::Hello> hello;    // the first worker's, with which the others' must agree
  std::set<int> vacant;              // the last view's ranks that nobody has taken yet
  std::map<std::string, int> seats;  // by incarnation: the rank that a member of a recovery had; -1: it was a spare
  bool restarted = false;            // a worker of this coordinator's predecessor has come back
};

// A running fleet comes back to a coordinator that was restarted (adoption.h).
struct Adopting {
  std::optional<v1::Assignment> told;      // the view, as the first rank that came back described it
  std::optional<v1::Divergence> diverged;  // the fleet goes back once all ranks are back
};

// Ranks enter the view and load (load_phase.h).
struct Loading {
  double progress = 0;                       // seconds: last view formed, Load sent, or rank entered or loaded
  size_t candidate = 0;                      // index of the checkpoint being loaded
  std::optional<SnapshotChoice> snapshot;    // the snapshot being loaded instead
  std::optional<Verification> verification;  // under way; an earlier view may have requested it
  std::string initial;                       // XXH3-128 of init_from's manifest, as reported; empty: not reported yet
};

// A step as it was reported.
struct DoneStep {
  int64_t step;
  double seconds;
  double loss, grad_norm;
  int world_size;
  size_t rollbacks;  // how many rollbacks the run had before it: after another one its samples differ
};

// The steps done since the last commit, and the lost ones that are to be repeated (repeated_steps.h).
struct RecentSteps {
  std::deque<DoneStep> uncommitted;      // in step order
  std::map<int64_t, DoneStep> repeated;  // lost steps, by step number, until they are reported again
};

// Which ranks delay the others (straggler.h).
struct StragglerWatch {
  std::set<int> named;        // ranks that were named, and do not keep up yet
  std::map<int, int> checks;  // by rank: how many checks in a row contradict what was last said about it
  double checked = 0;         // seconds: the last check
  int64_t checked_at = 0;     // the step of the last check
};

// Ranks do steps (training.h).
struct Training {
  double began = 0;         // seconds: when training first began
  uint64_t generation = 0;  // the last view's that began to train
  v1::Start start;          // what that view's ranks were sent
  int64_t first_step = 0;   // steps completed when training first began
  int64_t start_step = 0;   // steps completed when the view began to train
  v1::StepEvent last_step_event;
  v1::EvaluateEvent last_evaluation;
  int64_t last_evaluated_step = -1;
  std::deque<std::pair<int64_t, double>> step_losses;  // the newest steps that count, with their losses
  RecentSteps recent;
  double standstill_told = 0;  // seconds: when people were last told that no rank makes progress
  StragglerWatch stragglers;
};

// Checkpoints are written while training goes on (commit.h, failed_save.h).
struct Saving {
  std::map<int64_t, PendingCommit> commits;  // the pending commits, by step
  // Commits that a recovery did not wait for any longer, by generation and step (outlived_commit.h).
  std::map<std::pair<uint64_t, int64_t>, PendingCommit> outlived;
  std::optional<FailedSave> failed_save;  // the last save, if it failed; kept until the next commit
  int64_t last_committed_step = -1;       // the run's newest commit, or the step that it resumed from
  int64_t committed_by_run = -1;          // the newest commit by this run; -1: none
  std::string last_committed_path;
  bool emptied = false;  // the checkpoint directory was removed, and there was no commit since
};

// Who is heard, and what they report (liveness.h, isolation.h, disagreement.h).
struct Hearing {
  double last_tick = 0;                // seconds
  double late_by = 0, late_until = 0;  // it stood still for late_by; until late_until that explains sessions that end
  double heard_at = 0;                 // seconds: the newest message from anybody
  std::optional<Suspicion> suspicion;
  std::optional<Verdicts> verdicts;
  std::optional<Isolation> isolation;  // until those who were given up are back or lost
  std::set<MemberId> given_up;         // sessions that were given up and whose end has not been reported yet
  bool some_have_left = false;         // some members have left by themselves since the last regrouping
};

// Lost ranks, and ways to recover (recovery.h, divergence.h).
struct Recovering {
  std::optional<Recovery> current;
  bool memory_is_doubted = false;   // in this recovery: ranks computed wrong numbers, which may be in their snapshots
  double ended = 0;                 // seconds: when training resumed, while no step was reported since; else 0
  Losses losses;                    // the run's lost ranks
  v1::Flight flight;                // the last lost view's
  std::vector<Rollback> rollbacks;  // the run's, oldest first; the last may not be carried out yet

  // Whether a step has diverged and the run has not gone back from it yet.
  bool going_back() const { return !rollbacks.empty() && rollbacks.back().resumed_step < 0; }
};

// The run is ending (stop.h, ending.h).
struct Finishing {
  std::optional<std::string> stop_reason;
  double since = 0;  // seconds: when the first rank finished
};

// What ranks compute with and read, as they report it.
using Environment = google::protobuf::RepeatedPtrField<v1::Fact>;

struct Fleet {
  FleetParameters parameters;
  std::string config_digest;  // the configuration's digest
  double began = 0;           // seconds: the coordinator's start
  Phase phase = Phase::kForming;
  std::string message;  // why the run failed, when it has
  uint64_t generation = 0;
  MemberList members;              // in join order; in rank order once there is a view
  MemberList spares;               // workers beyond the places, in join order
  int places = 0;                  // how many members this view has, or the next one needs
  std::optional<View> view;        // none while the fleet forms or recovers
  int team = 0;                    // the run's, from its first view on
  Environment environment;         // the newest view's, which newcomers must have (environment.h)
  bool mixed_environment = false;  // not all members of that view have it
  Forming forming;
  Adopting adopting;
  Loading loading;
  Training training;
  Saving saving;
  Hearing hearing;
  Recovering recovering;
  Finishing finishing;
  FleetCounters counters;
  std::vector<Output> outputs;  // the outputs of the Step in progress

  // Ranks in the view; while the fleet forms or recovers, in the next one.
  int world_size() const { return view ? view->world_size() : places; }
  double heartbeat_timeout_seconds() const { return parameters.config.restart().heartbeat_timeout_seconds(); }
  double form_timeout_seconds() const { return parameters.config.restart().form_timeout_seconds(); }
  double load_timeout_seconds() const { return parameters.config.restart().load_timeout_seconds(); }
  bool ended() const { return phase == Phase::kDone || phase == Phase::kFailed; }

  Member* Find(MemberId id);          // spares included
  bool All(MemberState state) const;  // every place is taken by a member in this state
  bool AllEntered() const;            // every member has entered the view

  // Outputs. Messages carry the fleet's generation.
  void Send(MemberId member, v1::CoordinatorMessage message, std::string reason);
  void SendToAll(v1::CoordinatorMessage message, const std::string& reason);  // members
  void SendToSpares(v1::CoordinatorMessage message, const std::string& reason);
  void Publish(v1::Event event, std::string reason);
  void PublishNotice(const std::string& text);
  // `message` with the fleet's generation, so that it can be shared by several SendTo.
  std::shared_ptr<const v1::CoordinatorMessage> Stamped(v1::CoordinatorMessage message) const;
  void Emit(decltype(Output::action) action, std::string reason) {
    outputs.push_back({std::move(action), std::move(reason)});
  }
};

// The part of the state that must be durable.
CoordinatorState StateOf(const Fleet& fleet);
// "last committed checkpoint: step 50", or that there is none.
std::string LastCommitText(const Fleet& fleet);

}  // namespace zerofleet::coordinator

#endif  // ZEROFLEET_COORDINATOR_FLEET_H_
