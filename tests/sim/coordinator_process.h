// A coordinator's process: the real Coordinator, inside a model of services/coordinator/coordinator_loop. Outputs are
// carried out in order; while a state is being made durable the outputs behind it wait; manifests are written one at a
// time.
#ifndef ZEROFLEET_TESTS_SIM_COORDINATOR_PROCESS_H_
#define ZEROFLEET_TESTS_SIM_COORDINATOR_PROCESS_H_

#include <algorithm>
#include <deque>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "coordinator/coordinator.h"
#include "tests/sim/disk.h"
#include "tests/sim/invariants.h"
#include "tests/sim/network.h"
#include "tests/sim/run_plan.h"
#include "tests/sim/world.h"

namespace zerofleet::sim {

struct CoordinatorHooks {
  std::function<void(const v1::WorkerLostEvent&)> lost;  // called when the event is published
  std::function<void(const absl::Status& status, bool stopped)> ended;
  std::function<void()> worth_a_fault;  // called when much is under way
  std::function<void()> worth_a_crash;  // called when its loss would leave ranks that know different things
};

class CoordinatorProcess : public CoordinatorEnd {
 public:
  CoordinatorProcess(World& world, Network& network, Disk& disk, Invariants& invariants, const RunPlan& plan,
                     CoordinatorHooks hooks);

  void Start();
  void Stop(const std::string& reason) { Feed(coordinator::StopAsked{reason}); }

  // Faults. A save under way may be carried out before the process dies, or long after another has taken over.
  void Crash();
  void Freeze(double seconds);
  void JumpClock(double seconds) {
    clock_offset_ += seconds;
    clock_jumped_at_ = world_.now();
  }
  // Seconds since its clock jumped or it woke: silences measured across that moment are shorter than they look.
  double SinceClockJumped() const { return world_.now() - std::max(clock_jumped_at_, woke_at_); }
  void CutOff(double seconds, bool time_out) { network_.CutOff(this, seconds, time_out); }
  void FailNextManifest() { manifest_fails_ = true; }
  // The next commit is carried out but reported as failed, as on a mount that loses the answer and cannot be asked
  // again.
  void LoseNextAnswer() { answer_is_lost_ = true; }
  // The next commit, removal or verification takes this much longer, and makes no progress meanwhile.
  void StallStorage(double seconds) { storage_stalls_ = seconds; }
  // Its next read fails with `status`, in this process alone.
  void ReadBadly(const absl::Status& status) { reads_badly_ = status; }
  void FailNextState() { state_fails_ = true; }
  // Its next commit or removal checks who holds the directory, and is carried out this much later; or, after the next
  // commit, the pruning is.
  void HangBeforeItChanges(double seconds) { change_hangs_ = seconds; }
  void HangBeforeItPrunes(double seconds) { prune_hangs_ = seconds; }

  bool alive() const { return alive_; }
  // Whether another coordinator has taken its directory, whether or not it knows.
  bool is_older() const { return disk_.epoch() != epoch_; }
  const coordinator::Fleet& fleet() const { return coordinator_.fleet(); }

  void Receive(coordinator::MemberId member, const v1::WorkerMessage& message) override;
  void SessionClosed(coordinator::MemberId member, const std::string& cause) override {
    Feed(zerofleet::coordinator::SessionClosed{member, cause});
  }

 private:
  double clock() const { return world_.now() + clock_offset_; }
  void Feed(const coordinator::CoordinatorEvent& event);
  void TickOn();
  void WatchDirectory();
  void CarryOut();
  absl::Status Do(const coordinator::Output& output);
  void Persist(const coordinator::CoordinatorState& state);
  using Save = std::variant<coordinator::WriteManifest, coordinator::DiscardSave, coordinator::VerifyCheckpoint>;
  void Store(Save save);
  void StoreNext();
  void CarryOutSave();
  coordinator::CoordinatorEvent Stored(const coordinator::WriteManifest& write);
  coordinator::CoordinatorEvent Stored(const coordinator::DiscardSave& discard);
  coordinator::CoordinatorEvent Stored(const coordinator::VerifyCheckpoint& verify);
  void CommitLate(const v1::CheckpointManifest& manifest);
  absl::StatusOr<coordinator::CommittedStep> Commit(const v1::CheckpointManifest& manifest, bool prunes);
  absl::StatusOr<coordinator::CommittedStep> CommitAsTheOlder(const v1::CheckpointManifest& manifest);
  void OnStorageFailure(const absl::Status& status);

  World& world_;
  Network& network_;
  Disk& disk_;
  Invariants& invariants_;
  const RunPlan& plan_;
  CoordinatorHooks hooks_;
  coordinator::Coordinator coordinator_;
  bool alive_ = true, frozen_ = false, persisting_ = false, stopped_ = false;
  bool manifest_fails_ = false, state_fails_ = false, answer_is_lost_ = false;
  int epoch_ = 0;
  services::DirectoryHolder self_;
  absl::Status held_by_this_;  // the holder, as seen right before the first save changes anything, and when it looked
  double looked_at_ = 0, watches_at_ = 0;
  bool directory_is_lost_ = false;  // another has taken it, and it knows
  double change_hangs_ = 0, prune_hangs_ = 0;
  double clock_offset_ = 0, storage_stalls_ = 0;
  double clock_jumped_at_ = -1e9, woke_at_ = -1e9;
  absl::Status reads_badly_;
  std::vector<coordinator::CoordinatorEvent> held_;  // events that arrive while it is frozen
  std::deque<coordinator::Output> outputs_;
  // The first of them is being carried out.
  std::deque<Save> saves_;
};

}  // namespace zerofleet::sim

#endif  // ZEROFLEET_TESTS_SIM_COORDINATOR_PROCESS_H_
