// A worker process, which behaves as worker/trainer/worker_run.cc does towards its coordinator, its peers and the disk.
//
// It joins, gets ready, enters views, loads, trains with its peers, saves in the background, regroups and finishes. It
// may be killed, frozen for a while (what it was about to do happens when it wakes), or fail by itself.
#ifndef ZEROFLEET_TESTS_SIM_SIM_WORKER_H_
#define ZEROFLEET_TESTS_SIM_SIM_WORKER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/sim/collectives.h"
#include "tests/sim/disk.h"
#include "tests/sim/network.h"
#include "tests/sim/run_plan.h"
#include "tests/sim/sim_session.h"
#include "tests/sim/world.h"

namespace zerofleet::sim {

// Faults that wait for the next worker that saves.
struct PendingFaults {
  bool shard_fails = false;
};

class SimWorker;
using Peers = std::map<std::string, SimWorker*>;  // keyed by service address

struct Machine {
  World& world;
  Network& network;
  Disk& disk;
  Curriculum& curriculum;
  Collectives& collectives;
  const RunPlan& plan;
  PendingFaults& faults;
  Peers& peers;
};

class SimWorker {
 public:
  SimWorker(const Machine& machine, std::string host, int64_t pid);

  void Start(double after_seconds);

  // Faults.
  void Kill();
  void Freeze(double seconds);
  void FailItself(const absl::Status& status);
  void Signal();
  void BreakItsView();
  // It does not reach its next collective, and ignores its coordinator except for the end of its session; its
  // heartbeats go on. Nobody can detect this where nobody would wait in that collective: alone, or with another that
  // hangs.
  void Hang() { hangs_next_ = true; }
  // Its next result is wrong, without its noticing; the others notice, if there are any.
  void Corrupt();
  // From now on it and `other` cannot reach each other.
  void PartFrom(const SimWorker& other) { at_.collectives.Part(pid_, other.pid_); }
  // After its next step it says that another rank's numbers are wrong, which they are not.
  void Accuse() { accuses_ = true; }
  // For this long nothing that it writes is stored.
  void StallWrites(double seconds);
  // Its loads fail with `status`, once or each time, though the others can read.
  void ReadBadly(const absl::Status& status, bool for_ever) {
    reads_badly_ = status;
    reads_badly_for_ever_ = for_ever;
  }
  bool hangs() const { return !gone_ && hangs_next_; }

  bool gone() const { return gone_; }
  int64_t pid() const { return pid_; }
  bool was_corrupt() const { return was_corrupt_; }
  std::string service_address() const { return absl::StrCat("peer:", 1 + pid_); }
  bool has_joined() const { return session_.connected(); }
  coordinator::MemberId stream() const { return session_.stream(); }

 private:
  enum class Stage { kJoining, kMeeting, kAwaitingPeers, kEntering, kLoading, kTraining, kAwaitingRegroup, kFinished };

  // One part of a snapshot in memory. A worker keeps the last two of its own parts and of another rank's.
  struct Part {
    v1::SnapshotShard shard;
    TrainingState state;
  };
  using Parts = std::deque<Part>;  // oldest first

  // Runs `what` in this process: when it wakes if it is frozen, and not at all if it is gone.
  void Do(std::function<void()> what);
  void Later(double seconds, std::function<void()> what);
  void LaterInView(double seconds, std::function<void()> what);
  // Works on one thing for this long; messages wait.
  void BusyFor(double seconds, std::function<void()> then);
  void HandleWaiting();
  void Handle(const v1::CoordinatorMessage& message);

  void Send(v1::WorkerMessage message);
  void SendFailure(const Collectives::Outcome& outcome, bool in_view);
  v1::Heartbeat Heartbeat() const;
  void Exit();

  void MeetOthers();
  void TakePlace(const v1::Assignment& assignment);
  void AskForAPeer();
  void TakePeers(const v1::Peers& peers);
  void Enter();
  void Load(const v1::Load& load);
  absl::StatusOr<TrainingState> Read(const std::string& path);
  double StalledSeconds() const;
  void AnswerLoad(const v1::Load& load, const absl::StatusOr<TrainingState>& state);
  absl::StatusOr<TrainingState> Restore(const v1::Load& load);
  void BeginStep();
  std::vector<int64_t> Leaves() const;
  void StepDone(const Collectives::Outcome& outcome);
  void Diverge(int64_t end_sample);
  void TakeSnapshot();
  void SendCopy(const Part& part);
  void AfterSteps();
  void OnViewFailed(const Collectives::Outcome& outcome);
  void LeaveView();
  void AwaitOutcome(std::function<void()> then);
  void CommitTheLastSave(std::function<void()> then);
  void OnOutcome(const v1::CheckpointOutcome& outcome);
  void Save(int retry, std::function<void()> then);
  void WriteShard();
  void Report(v1::ShardWritten shard, uint64_t generation);
  void ReportFailed(v1::ShardWritten shard, uint64_t generation);
  bool SavesAfter(int64_t step) const;

  const Part* Find(const v1::SnapshotShard& shard) const;
  void KeepOnly(const v1::SnapshotId* snapshot);

  Machine at_;
  std::string host_;
  int64_t pid_;
  SimSession session_;
  Stage stage_ = Stage::kJoining;
  bool gone_ = false, frozen_ = false, busy_ = false, hung_ = false, hangs_next_ = false, corrupt_ = false,
       was_corrupt_ = false, accuses_ = false, asked_to_stop_ = false, stopping_ = false;
  std::vector<std::function<void()>> asleep_;  // work to do when it wakes
  uint64_t generation_ = 0;                    // generation of the last message taken

  uint64_t view_generation_ = 0;
  uint64_t views_ = 0;  // views entered or left; work that a view was about to do is void in the next
  v1::Assignment place_;
  TrainingState state_;
  coordinator::SkippedSamples left_out_;
  using SaveTry = std::pair<int64_t, int>;  // step, and number of the retry
  static constexpr SaveTry kNoSave = {-1, 0};
  int64_t step_ = 0, committed_ = -1;
  SaveTry saved_ = kNoSave, settled_ = kNoSave;
  Parts own_, replicas_;
  int64_t snapshot_due_ = 0;
  bool sending_ = false;
  absl::Status reads_badly_;
  bool reads_badly_for_ever_ = false;
  double writes_stall_until_ = 0;
  std::optional<v1::SaveProgress> saving_;
  int64_t arrived_ = 0;  // the step whose collective it has reached
  std::function<void()> when_settled_;
};

}  // namespace zerofleet::sim

#endif  // ZEROFLEET_TESTS_SIM_SIM_WORKER_H_
