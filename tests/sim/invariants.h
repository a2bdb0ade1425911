// What must hold after every event, whatever happens. A violation begins with the name of its property:
//
//   I1  an acknowledged checkpoint is complete and of one step: every rank's shard is durable before the manifest is
//       written (disk.cc)
//   I2  nothing that is not on disk is called committed
//   I3  generations only grow, also across coordinators, and are durable before anybody hears of them
//   I4  a message of an older view changes nothing, nor does one from a worker that was given up
//   I5  a generation has each rank once, and each element has one owner
//   I6  a step's report is that of an uninterrupted run, and no step is left out
//   I7  a recovery goes back to the newest whole checkpoint, never further
//   I8  nothing follows the end of a run, and it ends for a reason that it has met (fleet_simulation.cc)
//   I9  what a run leaves out lies between the place where it went on and a batch that diverged, is durable before
//       anybody hears of it, and is never forgotten
//   I10 a coordinator that is cut off does not lose ranks because of that
//   I11 a rank whose numbers are right is never given up for wrong ones
//   I12 of two coordinators on one directory only the newer changes it: the older may still carry out a change for
//       which it checked the holder before the newer began, and that takes from the newer nothing that it has or may
//       go back to; the older gives out no view that the newer does not know of, and its run ends
//       (fleet_simulation.cc)
#ifndef ZEROFLEET_TESTS_SIM_INVARIANTS_H_
#define ZEROFLEET_TESTS_SIM_INVARIANTS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "coordinator/coordinator.h"
#include "tests/sim/disk.h"
#include "tests/sim/run_plan.h"
#include "tests/sim/world.h"

namespace zerofleet::sim {

class Invariants {
 public:
  Invariants(World& world, Disk& disk, Curriculum& curriculum, const RunPlan& plan)
      : world_(world), disk_(disk), curriculum_(curriculum), plan_(plan) {}

  void BeforeStep(const coordinator::Fleet& fleet, const coordinator::CoordinatorEvent& event);
  void AfterStep(const coordinator::Fleet& fleet, const coordinator::CoordinatorEvent& event,
                 const std::vector<coordinator::Output>& outputs);
  // An output is about to be carried out.
  void OnOutput(const coordinator::Fleet& fleet, const coordinator::Output& output);
  // Like OnOutput, for a coordinator that another has followed and that does not know it yet.
  void OnOutputOfTheOlder(const coordinator::Fleet& fleet, const coordinator::Output& output);
  // A coordinator changes the directory or the state; it last checked at `looked_at` who holds them.
  void OnChange(int epoch, double looked_at, const char* what);
  int64_t recoveries() const { return recoveries_; }
  int64_t adopted() const { return adopted_; }
  int64_t rollbacks() const { return rollbacks_; }  // rollbacks after which training went on
  int64_t shrunk() const { return shrunk_; }        // times that the fleet went on with fewer ranks
  int64_t grown() const { return grown_; }          // times that it took in others again
  int64_t failed_saves() const { return failed_saves_; }
  int64_t restored() const { return restored_; }  // views that began with a snapshot

  // A manifest was written.
  void OnCommitted(const v1::CheckpointManifest& manifest);
  // A manifest was written that a recovery went on without.
  void OnCommittedLate(const v1::CheckpointManifest& manifest) { disk_.NoteLate(manifest.step()); }

 private:
  void Expect(bool holds, const std::string& what) {
    if (!holds) world_.Violate(what);
  }
  void OnSend(const coordinator::Fleet& fleet, const coordinator::SendTo& send);
  void OnStart(const v1::Start& start);
  void OnPersist(const coordinator::CoordinatorState& state);
  void OnAssignment(const coordinator::Fleet& fleet, uint64_t generation, const v1::Assignment& view);
  void OnPlace(const coordinator::Fleet& fleet, uint64_t generation, const v1::Assignment& view);
  void CheckPlacement(const v1::Assignment& view, bool team_is_kept);  // it is kept on whatever nodes
  void CheckIsCommitted(int64_t step);
  void OnEvent(const v1::Event& event);
  void OnStep(const v1::StepEvent& step);
  void OnEnd(const v1::EndEvent& end);

  struct ViewSeen {
    std::set<int> ranks;  // the ranks told so far
    // The flat ranges of those ranks, keyed by their part of the model.
    std::map<int, std::vector<std::pair<int64_t, int64_t>>> owned;
    bool complete = false;
  };

  World& world_;
  Disk& disk_;
  Curriculum& curriculum_;
  const RunPlan& plan_;
  std::string before_;  // the fingerprint before a message that must change nothing; else empty
  bool ended_before_ = false;
  uint64_t newest_generation_ = 0;
  uint64_t loaded_generation_ = 0;  // generation of the last view told to load
  int64_t loaded_step_ = 0;
  bool from_memory_ = false;  // the last thing that the ranks were told to load is a snapshot
  int64_t restored_ = 0;
  std::map<uint64_t, ViewSeen> views_;
  std::set<std::tuple<uint64_t, int64_t, int>> told_failed_;  // generation, step, retry
  std::map<int64_t, double> losses_;                          // reported losses, by step
  int64_t recoveries_ = 0, failed_saves_ = 0, rollbacks_ = 0, shrunk_ = 0, grown_ = 0, adopted_ = 0;
  int64_t next_step_ = 1;     // the next step to be reported
  int64_t reached_step_ = 0;  // the last step that this run reported and still has
};

}  // namespace zerofleet::sim

#endif  // ZEROFLEET_TESTS_SIM_INVARIANTS_H_
