// A worker process, as worker/trainer/worker_run.cc behaves towards its coordinator, its peers and the disk.
//
// It joins, gets ready, enters views, loads, trains with its peers, saves in the background, regroups and finishes. It
// may be killed, stopped for a while (what it was about to do happens when it wakes), or fail by itself.
#ifndef ZEROFLEET_TESTS_SIM_SIM_WORKER_H_
#define ZEROFLEET_TESTS_SIM_SIM_WORKER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/sim/collectives.h"
#include "tests/sim/disk.h"
#include "tests/sim/network.h"
#include "tests/sim/run_plan.h"
#include "tests/sim/world.h"

namespace zerofleet::sim {

// Faults that wait for the next worker that saves.
struct PendingFaults {
  bool shard_fails = false;
};

struct Machine {
  World& world;
  Network& network;
  Disk& disk;
  Collectives& collectives;
  const RunPlan& plan;
  PendingFaults& faults;
};

class SimWorker : public SessionEnd {
 public:
  SimWorker(const Machine& machine, std::string host, int64_t pid);

  void Start(double after_seconds);

  // What may happen to it.
  void Kill();
  void Freeze(double seconds);
  void FailItself(const absl::Status& status);
  void Signal();
  void BreakItsView();
  // It does not come to its next collective, and is deaf to its coordinator but for the end of its session; its
  // heartbeats go on. Where nobody would wait in that collective, nobody could tell: alone, or with another that hangs.
  void Hang() { hangs_next_ = true; }
  bool hangs() const { return !gone_ && hangs_next_; }

  bool gone() const { return gone_; }
  int64_t pid() const { return pid_; }
  coordinator::MemberId session() const { return session_; }

  void Receive(const v1::CoordinatorMessage& message) override;
  void SessionLost() override;

 private:
  enum class Stage { kJoining, kMeeting, kEntering, kLoading, kTraining, kAwaitingRegroup, kFinished };

  // `what` is done by this process: not when it is gone, and when it wakes if it is stopped.
  void Do(std::function<void()> what);
  void Later(double seconds, std::function<void()> what);
  void LaterInView(double seconds, std::function<void()> what);
  // Works on one thing; messages wait.
  void BusyFor(double seconds, std::function<void()> then);
  void HandleWaiting();
  void Handle(const v1::CoordinatorMessage& message);

  void Send(v1::WorkerMessage message);
  void SendFailure(const absl::Status& status, bool in_view);
  void Beat();
  void Exit();

  void MeetOthers();
  void Enter(const v1::Assignment& assignment);
  void Load(const std::string& path);
  void BeginStep();
  void StepDone(const absl::Status& status, bool stop);
  void AfterSteps();
  void OnViewFailed(const absl::Status& status);
  void LeaveView();
  void AwaitCommit(int64_t step, std::function<void()> then);
  void OnOutcome(const v1::CheckpointOutcome& outcome);
  void Save(std::function<void()> then);
  void WriteShard();
  void Report(v1::ShardWritten shard, uint64_t generation);
  bool SavesAfter(int64_t step) const;

  Machine at_;
  std::string host_;
  int64_t pid_;
  coordinator::MemberId session_ = 0;
  Stage stage_ = Stage::kJoining;
  bool gone_ = false, frozen_ = false, busy_ = false, hung_ = false, hangs_next_ = false, asked_to_stop_ = false,
       stopping_ = false;
  std::vector<std::function<void()>> asleep_;  // what happens when it wakes
  std::deque<v1::CoordinatorMessage> inbox_;
  uint64_t generation_ = 0;  // of the last message taken

  uint64_t view_generation_ = 0;
  uint64_t views_ = 0;  // entered or left: what a view was about to do is void in the next
  v1::Assignment place_;
  uint64_t state_ = 0;
  int64_t step_ = 0, committed_ = -1, saved_ = -1;
  int64_t awaited_ = -1;
  int64_t arrived_ = 0;  // the step whose collective it has come to
  std::function<void()> when_committed_;
};

}  // namespace zerofleet::sim

#endif  // ZEROFLEET_TESTS_SIM_SIM_WORKER_H_
