// Launching, faults, and judging how runs end; see fleet_simulation.h. For what must hold see invariants.h.
#include "tests/sim/fleet_simulation.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/away.h"
#include "tests/sim/coordinator_process.h"
#include "tests/sim/invariants.h"
#include "tests/sim/sim_worker.h"

namespace zerofleet::sim {
namespace {

// Without further faults a run ends within this time: the longest silence and stall, its time to form, and its few
// steps.
constexpr double kLongestAfterFaults = 240;  // seconds
// A coordinator that another has followed knows it within this time, even if it was frozen for as long as one may be.
constexpr double kFencedWithin = 2 + 2 * kHeartbeatTimeout;  // seconds

class FleetSimulation {
 public:
  FleetSimulation(uint64_t seed, std::ostream* trace)
      : world_(seed, trace),
        plan_(DrawPlan(world_, seed)),
        curriculum_(plan_.config, plan_.bad_batches),
        disk_(world_, curriculum_),
        network_(world_, plan_.repeats),
        collectives_(world_, plan_.config),
        invariants_(world_, disk_, curriculum_, plan_) {
    for (int fault = 0; fault < plan_.faults; ++fault) {
      world_.After(world_.Uniform(0, plan_.last_fault), [this] { Fault(); });
    }
    Launch();
    for (int second = 0; second < plan_.second_coordinators; ++second) {
      world_.After(world_.Uniform(1, plan_.last_fault), [this] { TakeTheCoordinatorForDead(); });
    }
  }

  SimulationResult Run() {
    while (!done_ && world_.violation().empty() && world_.RunNext()) {
      if (world_.now() > plan_.last_fault + kLongestAfterFaults) {
        world_.Violate(absl::StrCat("the fleet is stuck in phase ", coordinator::Name(coordinator().fleet().phase)));
      }
    }
    result_.violation = world_.violation();
    result_.seconds = world_.now();
    result_.recoveries = invariants_.recoveries();
    result_.failed_saves = invariants_.failed_saves();
    result_.restored = invariants_.restored();
    result_.adopted = invariants_.adopted();
    result_.rollbacks = invariants_.rollbacks();
    result_.shrunk = invariants_.shrunk();
    result_.grown = invariants_.grown();
    return std::move(result_);
  }

 private:
  CoordinatorProcess& coordinator() { return *coordinators_.back(); }
  Machine machine() { return {world_, network_, disk_, curriculum_, collectives_, plan_, pending_, peers_}; }

  void Launch();
  void StartCoordinator();
  void CrashTheCoordinator();
  void StartTheCoordinatorAgain();
  void TopUp();
  void StartWorker(double after_seconds);
  void StartWorkerOn(const std::string& host, double after_seconds);
  void Replace(const v1::WorkerLostEvent& lost);
  void OnEnd(const absl::Status& status, bool stopped);
  void LaunchAgain();
  std::string WhyUnexpected(const absl::Status& status) const;

  int workers_wanted() const { return plan_.workers() + plan_.config.restart().spares(); }
  bool MayFail() const { return world_.now() < plan_.last_fault; }
  bool IsMember(const SimWorker& worker);
  void Fault();
  void FaultOfAWorker(SimWorker& worker);
  void FaultOfStorage();
  void FaultOfTheCoordinator();
  void Silence();
  void TakeTheCoordinatorForDead();
  void StartASecondCoordinator(CoordinatorProcess& first);
  void OnEndOfTheOlder(size_t number, const absl::Status& status);
  absl::Status AnyBadRead();
  double AnyStall();
  SimWorker* AnyWorker();

  World world_;
  RunPlan plan_;
  Curriculum curriculum_;
  Disk disk_;
  Network network_;
  Collectives collectives_;
  Invariants invariants_;
  PendingFaults pending_;
  Peers peers_;
  std::vector<std::unique_ptr<CoordinatorProcess>> coordinators_;  // the last one serves
  std::vector<std::unique_ptr<SimWorker>> workers_;  // workers of all launches; the index is the process id
  std::set<int64_t> disturbed_;                      // process ids of workers that met a fault of their own
  size_t first_of_launch_ = 0;
  bool withhold_ = false;  // the next replacement does not come
  // Reasons that may explain the end of this launch.
  bool place_may_stay_empty_ = false, save_failed_ = false, state_failed_ = false, stop_asked_ = false,
       worker_failed_ = false, storage_stalls_ = false, coordinator_reads_badly_ = false;
  bool done_ = false;
  SimulationResult result_;
};

void FleetSimulation::Launch() {
  // Workers that still run from an earlier launch may report a failure or a signal to this one.
  if (std::all_of(workers_.begin(), workers_.end(), [](const auto& worker) { return worker->gone(); })) {
    stop_asked_ = worker_failed_ = false;
  }
  place_may_stay_empty_ = state_failed_ = storage_stalls_ = coordinator_reads_badly_ = false;
  save_failed_ = disk_.IsFull();
  pending_ = {};
  withhold_ = false;
  first_of_launch_ = workers_.size();
  StartCoordinator();
  const int surplus = world_.Chance(0.1) ? 1 : 0;
  for (int i = 0; i < workers_wanted() + surplus; ++i) StartWorker(world_.Uniform(0, 1));
}

void FleetSimulation::StartCoordinator() {
  // A coordinator that another has followed has a launcher of its own, which is not simulated.
  const auto serves = [this, number = coordinators_.size()] { return number + 1 == coordinators_.size(); };
  const auto lost = [this, serves](const v1::WorkerLostEvent& event) {
    if (serves()) Replace(event);
  };
  const auto ended = [this, serves, number = coordinators_.size()](const absl::Status& status, bool stopped) {
    serves() ? OnEnd(status, stopped) : OnEndOfTheOlder(number, status);
  };
  const auto worth_a_fault = [this] {
    if (MayFail() && world_.Chance(plan_.nudges)) world_.After(world_.Uniform(0, 0.3), [this] { Fault(); });
  };
  const auto crash = [this] {
    if (MayFail() && world_.Chance(3 * plan_.nudges))
      world_.After(world_.Uniform(0, 0.2), [this] { CrashTheCoordinator(); });
  };
  coordinators_.push_back(std::make_unique<CoordinatorProcess>(world_, network_, disk_, invariants_, plan_,
                                                               CoordinatorHooks{lost, ended, worth_a_fault, crash}));
  coordinator().Start();
}

// Its predecessor's state remains. Processes of this launch that ended in the meantime are started again, including
// those whose end nobody is told; what an earlier launch left behind takes none of their places.
void FleetSimulation::StartTheCoordinatorAgain() {
  if (world_.Chance(0.15)) return Launch();  // starts a whole new fleet, whatever remains of the last
  world_.Trace("the coordinator is started again");
  StartCoordinator();
  const double adopted = coordinator::AdoptionSeconds(plan_.config.restart());
  for (const double seconds : {1.0, adopted / 2, adopted + 1, adopted + 4}) {
    world_.After(seconds, [this, started = coordinators_.size()] {
      if (started == coordinators_.size()) TopUp();
    });
  }
  if (!MayFail() || !world_.Chance(0.3)) return;
  world_.After(world_.Uniform(0.02, 4), [this, started = coordinators_.size()] {
    if (started == coordinators_.size()) CrashTheCoordinator();
  });
}

void FleetSimulation::TopUp() {
  const coordinator::Phase phase = coordinator().fleet().phase;
  if (phase != coordinator::Phase::kForming && phase != coordinator::Phase::kAdopting) return;
  int missing = workers_wanted();
  for (size_t i = first_of_launch_; i < workers_.size(); ++i) missing -= workers_[i]->gone() ? 0 : 1;
  for (; missing > 0; --missing) StartWorker(world_.Uniform(0.1, 1));
}

void FleetSimulation::StartWorker(double after_seconds) {
  StartWorkerOn(absl::StrCat("host", world_.Below(plan_.hosts)), after_seconds);
}

void FleetSimulation::StartWorkerOn(const std::string& host, double after_seconds) {
  workers_.push_back(std::make_unique<SimWorker>(machine(), host, static_cast<int64_t>(workers_.size())));
  workers_.back()->Start(after_seconds);
}

// On another machine the lost worker may live on. Its process may be started again in place, but too late for a fleet
// that does not wait that long: the fleet grows by it later.
void FleetSimulation::Replace(const v1::WorkerLostEvent& lost) {
  const bool known = !lost.host().empty();  // not every rank of an adopted view is known
  const bool measured = coordinator().SinceClockJumped() > kHeartbeatTimeout;
  // By then even the last heartbeat before the cut is too old to show that the network is there.
  const bool ended =
      lost.rank() < 0 && lost.cause() == "timed out" && network_.CutOffFor(&coordinator()) > 0.6 * kHeartbeatTimeout;
  const bool silent = absl::StartsWith(lost.cause(), "nothing heard") && network_.IsCutOff(&coordinator());
  if (known && measured && (silent || ended) && !workers_[lost.pid()]->gone() && !disturbed_.contains(lost.pid())) {
    world_.Violate(absl::StrCat("I10: pid ", lost.pid(), " is lost since the coordinator was cut off"));
  }
  const bool blamed = absl::StrContains(lost.cause(), "the ranks disagree");
  if (known && blamed && !workers_[lost.pid()]->was_corrupt()) {
    world_.Violate(absl::StrCat("I11: pid ", lost.pid(), " is given up for wrong numbers, and had none"));
  }
  if (known && world_.Chance(0.5)) workers_[lost.pid()]->Kill();
  const bool shrinks = plan_.config.restart().min_workers() > 0 && world_.Chance(0.3);
  if (!std::exchange(withhold_, false) && !shrinks) return StartWorker(world_.Uniform(0.1, 2));
  place_may_stay_empty_ = true;
  if (known && world_.Chance(0.8)) StartWorkerOn(lost.host(), kFormTimeout + world_.Uniform(0.1, 4));
}

void FleetSimulation::OnEnd(const absl::Status& status, bool stopped) {
  world_.Trace("the run ends: ", status.ToString());
  result_.ends.push_back(status);
  if (const std::string why = WhyUnexpected(status); !why.empty()) {
    world_.Violate(absl::StrCat("I8: the run ends without a cause (", why, "): ", status.ToString()));
  }
  // Messages that the workers still send reach a coordinator that has ended.
  if (status.ok() && !stopped) {
    world_.After(1, [this] { done_ = true; });
  } else {
    LaunchAgain();
  }
}

void FleetSimulation::LaunchAgain() {
  world_.After(world_.Uniform(0.5, 2), [this, ended = coordinators_.size()] {
    if (ended != coordinators_.size()) return;  // it had ended before it was killed
    coordinator().Crash();
    Launch();
  });
}

std::string FleetSimulation::WhyUnexpected(const absl::Status& status) const {
  const bool poison = absl::StrContains(status.message(), "is poison to it");
  switch (status.code()) {
    case absl::StatusCode::kOk: return "";
    case absl::StatusCode::kUnavailable:
      if (plan_.ample() && absl::StrContains(status.message(), "a peer cannot be reached")) {
        return "the two that cannot reach each other were brought together again";
      }
      return plan_.ample() && !poison ? "there were restarts left" : "";
    case absl::StatusCode::kCancelled: return stop_asked_ ? "" : "nobody stopped it";
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kResourceExhausted: {
      const bool last_save = save_failed_ && absl::StrContains(status.message(), "the last save was tried");
      if (storage_stalls_ && absl::StrContains(status.message(), "has got no further")) return "";
      if (coordinator_reads_badly_ && absl::StrContains(status.message(), "cannot read it, either")) return "";
      return state_failed_ || last_save ? "" : "no storage failed, or another save could have been tried";
    }
    case absl::StatusCode::kDeadlineExceeded:
      if (storage_stalls_ && absl::StrContains(status.message(), "has not read")) return "";
      if (storage_stalls_ && absl::StrContains(status.message(), "waiting for the commit")) return "";
      return place_may_stay_empty_ ? "" : "every place was taken again";
    case absl::StatusCode::kFailedPrecondition: {
      const auto tried = static_cast<int64_t>(curriculum_.diverged().size()) - 1;
      return tried >= plan_.config.divergence().max_rollbacks() ? "" : "it could have gone back";
    }
    case absl::StatusCode::kInternal: return worker_failed_ ? "" : "no worker failed by itself";
    default: return "no such thing happened";
  }
}

// --- Faults.

SimWorker* FleetSimulation::AnyWorker() {
  std::vector<SimWorker*> running;
  for (size_t i = first_of_launch_; i < workers_.size(); ++i) {
    if (!workers_[i]->gone() && workers_[i]->has_joined()) running.push_back(workers_[i].get());
  }
  return running.empty() ? nullptr : running[world_.Below(static_cast<int>(running.size()))];
}

bool FleetSimulation::IsMember(const SimWorker& worker) {
  const auto is_it = [&](const coordinator::Member& member) { return member.hello.pid() == worker.pid(); };
  const coordinator::Fleet& fleet = coordinator().fleet();
  return std::any_of(fleet.members.begin(), fleet.members.end(), is_it) ||
         std::any_of(fleet.spares.begin(), fleet.spares.end(), is_it);
}

void FleetSimulation::Fault() {
  // A forming fleet has little to lose: most faults wait until it has formed.
  const bool forming = !coordinator().alive() || coordinator().fleet().phase == coordinator::Phase::kForming;
  if (forming && MayFail() && world_.Chance(0.9)) return world_.After(world_.Uniform(0.5, 3), [this] { Fault(); });
  const double kind = world_.Uniform(0, 1);
  if (kind < 0.65) {
    if (SimWorker* worker = AnyWorker()) FaultOfAWorker(*worker);
  } else if (kind < 0.75) {
    FaultOfStorage();
  } else if (kind < 0.98) {
    FaultOfTheCoordinator();
  } else {
    world_.Trace("an operator stops the run");
    stop_asked_ = true;
    coordinator().Stop("simulated");
  }
  // Faults come in groups: the next one finds a fleet that is recovering.
  if (MayFail() && world_.Chance(0.4)) world_.After(world_.Uniform(0, 1.5), [this] { Fault(); });
}

void FleetSimulation::FaultOfAWorker(SimWorker& worker) {
  disturbed_.insert(worker.pid());
  // Nobody is told of a loss before the worker has joined, or before the fleet has formed.
  if (coordinator().fleet().phase == coordinator::Phase::kForming || !IsMember(worker)) place_may_stay_empty_ = true;
  switch (world_.Below(14)) {
    case 12: {
      SimWorker* const other = AnyWorker();
      if (other == &worker) return;
      world_.Trace("pids ", worker.pid(), " and ", other->pid(), " cannot reach each other");
      disturbed_.insert(other->pid());
      return worker.PartFrom(*other);
    }
    case 13: return worker.Accuse();
    case 0:
    case 1: return worker.Kill();
    case 2: return worker.Freeze(world_.Uniform(0.2, 3 * kHeartbeatTimeout));
    case 3: {
      const double seconds = world_.Uniform(0.2, 3 * kHeartbeatTimeout);
      if (worker.stream() == 0) return;
      world_.Trace("stream ", worker.stream(), " is cut for ", seconds, " s");
      return network_.Cut(worker.stream(), seconds);
    }
    case 4: {
      if (worker.stream() == 0) return;
      world_.Trace("stream ", worker.stream(), " breaks");
      return network_.Break(worker.stream());
    }
    case 5: return worker.BreakItsView();
    case 6: {
      worker_failed_ = true;
      return worker.FailItself(absl::InternalError("simulated"));
    }
    case 7: return worker.Corrupt();
    case 10: return worker.ReadBadly(AnyBadRead(), world_.Chance(0.5));
    case 11: return worker.StallWrites(AnyStall());
    case 8: {
      const bool others =
          std::any_of(workers_.begin(), workers_.end(), [](const auto& other) { return other->hangs(); });
      return others ? worker.Kill() : worker.Hang();
    }
    default: {
      if (world_.Chance(0.7)) {
        withhold_ = world_.Chance(0.3);
        return worker.Kill();
      }
      stop_asked_ = true;
      return worker.Signal();
    }
  }
}

void FleetSimulation::FaultOfStorage() {
  switch (world_.Below(10)) {
    case 9: save_failed_ = true; return coordinator().LoseNextAnswer();
    case 0: save_failed_ = true; return coordinator().FailNextManifest();
    case 1: state_failed_ = true; return coordinator().FailNextState();
    case 2: save_failed_ = pending_.shard_fails = true; return;
    case 3: disk_.DamageNewest(); return;
    case 7: {
      const double seconds = AnyStall();
      world_.Trace("what the coordinator stores next stands still for ", seconds, " s");
      storage_stalls_ = true;
      return coordinator().StallStorage(seconds);
    }
    case 8: {
      coordinator_reads_badly_ = true;
      return coordinator().ReadBadly(absl::ResourceExhaustedError("simulated EIO"));
    }
    case 4: {
      const double seconds = world_.Chance(0.3) ? world_.Uniform(10, 40) : world_.Uniform(0.5, 5);
      world_.Trace("the disk is full for ", seconds, " s");
      save_failed_ = true;
      return disk_.FillUntil(world_.now() + seconds);
    }
    default: disk_.SlowDownUntil(world_.now() + world_.Uniform(1, 10));
  }
}

void FleetSimulation::FaultOfTheCoordinator() {
  switch (world_.Below(5)) {
    case 2: return Silence();
    case 0: return coordinator().JumpClock(world_.Uniform(0, 3 * kHeartbeatTimeout));
    case 1: return coordinator().Freeze(world_.Uniform(0, 2 * kHeartbeatTimeout));
    default: return CrashTheCoordinator();
  }
}

// Nothing reaches the coordinator or leaves it for a while; then the network heals.
void FleetSimulation::Silence() {
  if (!coordinator().alive()) return;
  const double seconds = world_.Chance(0.5) ? world_.Uniform(1, 8) : world_.Uniform(8, 30);
  world_.Trace("the coordinator is cut off for ", seconds, " s");
  // A forming fleet, or a lone rank that is lost meanwhile, may run out of time.
  const bool forms = coordinator().fleet().phase != coordinator::Phase::kTraining;
  if (forms || seconds > kFormTimeout) place_may_stay_empty_ = true;
  coordinator().CutOff(seconds, world_.Chance(0.4));
}

// Its node is only cut off, at least from its workers; or nothing is wrong with it, and an operator is mistaken. What
// it had begun to store may be carried out now or later.
void FleetSimulation::TakeTheCoordinatorForDead() {
  if (done_ || !coordinator().alive() || coordinator().fleet().ended()) return;
  const double seconds = world_.Uniform(0.2, 12);
  place_may_stay_empty_ = true;
  if (world_.Chance(0.5)) {
    world_.Trace("the coordinator is cut off for ", seconds, " s, and taken for dead");
    coordinator().CutOff(seconds, world_.Chance(0.5));
  }
  const double hangs = seconds + world_.Uniform(0, 4);
  if (world_.Chance(0.3)) coordinator().HangBeforeItChanges(hangs);
  if (world_.Chance(0.3)) coordinator().HangBeforeItPrunes(hangs);
  world_.After(world_.Uniform(0, seconds), [this, first = coordinators_.size()] {
    if (first == coordinators_.size()) StartASecondCoordinator(coordinator());
  });
}

// Starts it in the directory of the first, whose lock does not exclude it: alone, or with a whole new fleet.
void FleetSimulation::StartASecondCoordinator(CoordinatorProcess& first) {
  if (done_ || !first.alive() || first.fleet().ended()) return;
  world_.Trace("a second coordinator is started");
  world_.Chance(0.5) ? Launch() : StartTheCoordinatorAgain();
  place_may_stay_empty_ = true;
  world_.After(kFencedWithin, [this, &first] {
    if (first.alive() && !first.fleet().ended()) world_.Violate("I12: the older of two coordinators goes on");
  });
}

void FleetSimulation::OnEndOfTheOlder(size_t number, const absl::Status& status) {
  world_.Trace("the run of the older coordinator ends: ", status.ToString());
  result_.fenced += absl::StrContains(status.message(), "has taken over");
  world_.After(world_.Uniform(0.5, 2), [this, number] { coordinators_[number]->Crash(); });
}

absl::Status FleetSimulation::AnyBadRead() {
  switch (world_.Below(3)) {
    case 0: return absl::DataLossError("simulated: other bytes");
    case 1: return absl::NotFoundError("simulated ENOENT");
    default: return absl::ResourceExhaustedError("simulated EIO or ESTALE");
  }
}

// A minute or less, or longer than the run.
double FleetSimulation::AnyStall() {
  return world_.Chance(0.2) ? 1e6 : world_.Chance(0.5) ? world_.Uniform(1, 10) : world_.Uniform(10, 60);
}

// The coordinator is usually back soon, or else so late that some or all of its workers are gone.
void FleetSimulation::CrashTheCoordinator() {
  if (done_ || !coordinator().alive()) return;
  const bool power = world_.Chance(0.2);
  if (power) {
    world_.Trace("the power fails");
    for (const auto& worker : workers_) worker->Kill();
    for (const auto& older : coordinators_) {
      if (older->is_older()) older->Crash();
    }
  }
  coordinator().Crash();
  if (power) disk_.LosePower();
  const double seconds = world_.Chance(0.1)   ? world_.Uniform(kFormTimeout - 1, kFormTimeout + 5)
                         : world_.Chance(0.2) ? world_.Uniform(2, 8)
                                              : world_.Uniform(0.3, 2);
  world_.After(seconds, [this, power, crashed = coordinators_.size()] {
    if (crashed != coordinators_.size()) return;
    power ? Launch() : StartTheCoordinatorAgain();
  });
}

}  // namespace

SimulationResult Simulate(uint64_t seed, std::ostream* trace) { return FleetSimulation(seed, trace).Run(); }

}  // namespace zerofleet::sim
